"""A client far above its quota, beside one that is not: the broker neither reads nor sends more of the noisy one.

Bytes are counted, not time: its quota mutes the noisy client for longer than the test runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any

import pytest

from protocol.api import ApiKey, response_class
from protocol.framing import SMALL_READ_BYTES
from protocol.headers import RequestHeader, decode_response_header, encode_request_header
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import ProduceRequest
from protocol.schema import Message
from tests.logs import batch
from tests.unit.broker.whole_broker import WholeBroker

_SIZE = Struct(">i")
RECORD_BYTES = 10_000
REQUESTS = 200
"""The requests that the noisy client sends without waiting for a response."""


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[WholeBroker]:
    running = WholeBroker(str(tmp_path / "data"), auto_create_topics_enable="true")
    running.wait(running.start())
    running.call(ApiKey.METADATA, 9, topics=[MetadataRequest.Topic(name="t")])
    yield running
    running.wait(running.stop())
    running.loop.close()


class Client:
    """A connection with a client id, which counts the bytes of its requests and responses."""

    def __init__(self, whole: WholeBroker, client_id: str) -> None:
        self._whole = whole
        self._client_id = client_id
        host, _, port = whole.node.bootstrap.rpartition(":")
        self._reader, self._writer = whole.wait(asyncio.open_connection(host, int(port)))
        self.sent_bytes = self.received_bytes = 0

    def send(self, key: ApiKey, version: int, request: Message) -> None:
        frame = encode_request_header(RequestHeader(key, version, 7, self._client_id)) + request.encode(version)
        self._writer.write(_SIZE.pack(len(frame)) + frame)
        self.sent_bytes += _SIZE.size + len(frame)

    def receive(self, key: ApiKey, version: int) -> Any:
        return self._whole.wait(self._receive(key, version))

    async def _receive(self, key: ApiKey, version: int) -> Any:
        size = await self._reader.readexactly(_SIZE.size)
        frame = await self._reader.readexactly(*_SIZE.unpack(size))
        self.received_bytes += _SIZE.size + len(frame)
        _, body_at = decode_response_header(key, version, frame)
        return response_class(key).decode(memoryview(bytearray(frame)), version, body_at)

    def close(self) -> None:
        self._writer.transport.abort()


def limit(whole: WholeBroker, key: str) -> None:
    """Give the client id `noisy` a quota of one byte per second."""
    entry = AlterClientQuotasRequest.Entry
    entity = [entry.Entity(entity_type="client-id", entity_name="noisy")]
    quota = entry(entity=entity, ops=[entry.Op(key=key, value=1.0, remove=False)])
    whole.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[quota], validate_only=False)


def produce() -> ProduceRequest:
    partition = ProduceRequest.Topic.Partition(index=0, records=memoryview(batch(size=RECORD_BYTES)))
    topic = ProduceRequest.Topic(name="t", partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])


def fetch(offset: int) -> FetchRequest:
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=RECORD_BYTES)
    topic = FetchRequest.Topic(topic="t", partitions=[partition])
    return FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, topics=[topic])


def served(quiet: Client, count: int) -> None:
    """Produce and fetch as the quiet client, which is never throttled."""
    for _ in range(count):
        quiet.send(ApiKey.PRODUCE, 9, produce())
        assert quiet.receive(ApiKey.PRODUCE, 9).throttle_time_ms == 0
        quiet.send(ApiKey.FETCH, 11, fetch(0))
        answer = quiet.receive(ApiKey.FETCH, 11)
        assert answer.throttle_time_ms == 0
        assert len(answer.responses[0].partitions[0].records) > RECORD_BYTES


def test_a_noisy_producer_is_not_read_from_while_a_quiet_client_is_served(whole: WholeBroker) -> None:
    limit(whole, "producer_byte_rate")
    metrics = whole.node.shared.metrics
    noisy, quiet = Client(whole, "noisy"), Client(whole, "quiet")
    before_bytes = metrics.received_bytes
    for _ in range(REQUESTS):
        noisy.send(ApiKey.PRODUCE, 9, produce())
    assert noisy.receive(ApiKey.PRODUCE, 9).throttle_time_ms > 3_600_000 / 2
    served(quiet, 50)
    assert noisy.sent_bytes > REQUESTS * RECORD_BYTES
    assert metrics.received_bytes - before_bytes - quiet.sent_bytes <= SMALL_READ_BYTES
    quiet.send(ApiKey.PRODUCE, 9, produce())
    (appended,) = quiet.receive(ApiKey.PRODUCE, 9).responses[0].partition_responses
    assert appended.base_offset == 1 + 50  # of the noisy client, one record
    noisy.close()
    quiet.close()


def test_a_noisy_consumer_is_sent_one_response_while_a_quiet_client_is_served(whole: WholeBroker) -> None:
    limit(whole, "consumer_byte_rate")
    metrics = whole.node.shared.metrics
    noisy, quiet = Client(whole, "noisy"), Client(whole, "quiet")
    served(quiet, 1)
    quiet_bytes, before_bytes = quiet.received_bytes, metrics.sent_bytes
    for _ in range(REQUESTS):
        noisy.send(ApiKey.FETCH, 11, fetch(0))
    assert noisy.receive(ApiKey.FETCH, 11).throttle_time_ms > 3_600_000 / 2
    served(quiet, 50)
    assert metrics.sent_bytes - before_bytes == noisy.received_bytes + quiet.received_bytes - quiet_bytes
    assert RECORD_BYTES < noisy.received_bytes < 2 * RECORD_BYTES
    noisy.close()
    quiet.close()
