"""A whole broker in this process that receives invalid frames, and the outcomes that are allowed.

A frame goes to the dispatcher and its handler as if it had been read from a connection. It may be answered,
deferred, or end the connection (`DecodeError`, `Disconnect`). Anything else is a bug: an unexpected exception in a
handler, a broken invariant, an error of the event loop, a frame that takes too long.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from broker.network.connection import Connection, Disconnect
from broker.node import Node
from broker.settings import Option, check_settings
from protocol.api import ApiKey, request_class
from protocol.errors import DecodeError
from protocol.headers import RequestHeader, encode_request_header
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from storage.disk import OsDisk
from tests.declared import random_message
from tests.typed import present

LISTENER = "PLAINTEXT"
TOPICS = ("a", "orders-7")  # names that `random_message` often generates
MOST_CPU_S = 0.1
"""Limit on how long a frame may hold the event loop, in CPU time of its thread, independent of other processes."""


class MisbehavedError(AssertionError):
    """The broker did something that no request may cause."""


class HostileBroker:
    """A broker with its own directory and event loop."""

    def __init__(self, directory: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._complaints: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self._complaints.append(context))
        settings = {
            "listeners": f"{LISTENER}://127.0.0.1:0",
            "log.dirs": directory,
            "offsets.topic.num.partitions": "2",
            "auto.create.topics.enable": "false",
        }
        self._node = Node(
            check_settings({name: Option(text, "test") for name, text in settings.items()}),
            OsDisk(),
            self.loop,
            random=Random(1),
        )
        self.wait(self._node.start())
        for topic in TOPICS:
            self.wait(self._node.create_topic(topic, 2))
        self._dispatch = present(self._node.broker).dispatcher

    def wait(self, awaitable: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(awaitable)

    def stop(self) -> None:
        """Stop as on SIGTERM; raise MisbehavedError if that is not clean."""
        clean = self.wait(self._node.stop())
        self.loop.close()
        if not clean or self._complaints:
            raise MisbehavedError(f"stopped {'clean' if clean else 'unclean'}: {self._complaints}")

    def requests(self) -> list[tuple[ApiKey, int]]:
        """Return every served API and version."""
        served = self._dispatch.apis
        return [(key, version) for key, api in served.items() for version in api.versions]

    def handle(self, frame: bytes) -> str:
        """Process a frame; return its outcome, or raise MisbehavedError."""
        failures = self._node.shared.metrics.handler_failures
        gc.disable()  # a collection would traverse all objects of earlier tests in this process
        begun = time.thread_time()
        try:
            result = self._outcome(frame)
            self.wait(asyncio.sleep(0))  # run the callbacks that the frame scheduled
        finally:
            held_s = time.thread_time() - begun
            gc.enable()
        if self._node.shared.metrics.handler_failures != failures:
            raise MisbehavedError("the handler failed: its traceback is in the log")
        if self._complaints:
            raise MisbehavedError(f"the event loop complains: {self._complaints}")
        if held_s > MOST_CPU_S:
            raise MisbehavedError(f"the loop was held for {held_s * 1000:.0f} ms of CPU time")
        return result

    def _outcome(self, frame: bytes) -> str:
        try:
            outcome = self._dispatch(memoryview(bytearray(frame)), Connection(1, LISTENER, "127.0.0.1"))
        except (DecodeError, Disconnect):
            return "closed"
        except Exception as error:
            raise MisbehavedError(f"{type(error).__name__} escaped: {error}") from error
        return "nothing" if outcome is None else "answered" if isinstance(outcome, list) else "waits"


def frame_of(seed: int, broker: HostileBroker) -> bytes:
    """Return the frame of a seed."""
    random = Random(seed)
    return mutated(good_frame(random, *random.choice(broker.requests())), random)


def good_frame(random: Random, key: ApiKey, version: int) -> bytes:
    """Return a decodable request with arbitrary values."""
    if key is ApiKey.PRODUCE and version >= 3 and random.random() < 0.5:
        message = _produce(random, version)
    else:
        message = random_message(random, request_class(key), version)
    return encode_request_header(RequestHeader(key, version, 7, "hostile")) + message.encode(version)


def _produce(random: Random, version: int) -> ProduceRequest:
    """Return a produce request that may succeed."""
    records = build_batch([(b"key", random.randbytes(20))] * random.randrange(1, 4), timestamp_ms=0)
    if random.random() < 0.5:
        records[random.randrange(len(records))] ^= 1 << random.randrange(8)
    partition = ProduceRequest.Topic.Partition(index=random.randrange(3), records=bytes(records))
    name = {"name": random.choice(TOPICS)} if version < 13 else {"topic_id": bytes(16)}
    topics = [ProduceRequest.Topic(**name, partition_data=[partition])]
    return ProduceRequest(acks=random.choice((-1, 0, 1)), timeout_ms=10, topic_data=topics)


def _flip(data: bytearray, random: Random) -> None:
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _set(data: bytearray, random: Random) -> None:
    data[random.randrange(len(data))] = random.choice((0, 1, 0x7F, 0x80, 0xFF))


def _number(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data))
    data[at : at + 4] = random.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\x0f"))


def _cut(data: bytearray, random: Random) -> None:
    del data[random.randrange(len(data)) :]


def _drop(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data))
    del data[at : at + random.randrange(1, 9)]


def _insert(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data))
    data[at:at] = random.randbytes(random.randrange(1, 9))


def _repeat(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data))
    data[at:at] = data[at : at + random.randrange(1, 40)] * random.randrange(1, 50)


_CHANGES: tuple[Callable[[bytearray, Random], None], ...] = (_flip, _set, _number, _cut, _drop, _insert, _repeat)


def mutated(frame: bytes, random: Random) -> bytes:
    """Return the frame with a few bytes changed; API key and version stay, so that it reaches a handler."""
    head, rest = frame[:4], bytearray(frame[4:])
    for _ in range(random.choice((0, 1, 1, 2, 3, 8))):
        if rest:
            random.choice(_CHANGES)(rest, random)
    return head + bytes(rest)
