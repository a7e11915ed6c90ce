"""A production broker on real logs, in virtual time: fixture `node`.

A test writes the cluster's metadata, sends requests to the handlers as a client would (each is encoded and decoded),
and waits for time to pass: the loop's clock jumps to the next timer.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, TypeVar

from broker.broker_server import BrokerServer
from broker.network.connection import Connection, RequestContext
from broker.node import Node as BrokerNode
from broker.replication.fetch_sessions import FetchPartition
from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager
from broker.routes import ROUTES
from broker.runtime.deferred import Deferred
from broker.settings import Option, check_settings
from controller.commands.controller_result import ControllerResult
from controller.image import Endpoint, MetadataImage
from protocol.api import ApiKey, request_class, response_class
from protocol.headers import RequestHeader, decode_response_header
from protocol.messages.broker_registration import RegisteredListener
from protocol.messages.fetch import FetchRequest
from protocol.primitives import read_parts
from protocol.record import Record
from protocol.record_batch import RecordLike, build_batch, iter_batches, iter_records
from protocol.records.metadata import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from protocol.schema import Message
from storage.disk import Disk, UnsyncedDisk
from storage.log.config import LogConfig
from tests.typed import present

T = TypeVar("T")

NODE_ID = 1
START_MS = 1_700_000_000_000
LISTENER = "PLAINTEXT"
METADATA_LOG = "__cluster_metadata-0"

_DEFAULTS = LogConfig()
_LONG_MS = str(20 * 24 * 3600 * 1000)
_MOST_S = 19 * 24 * 3600
_SETTINGS = {
    "node.id": str(NODE_ID),
    "listeners": f"{LISTENER}://127.0.0.1:0",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "broker.heartbeat.interval.ms": "3600000",
    "broker.session.timeout.ms": _LONG_MS,
    "replica.lag.time.max.ms": _LONG_MS,
    "max.incremental.fetch.session.cache.slots": "4",
}
"""What keeps a lone broker quiet."""
_CONFIG_NAMES = {"segment_bytes": "internal.segment.bytes", "timestamp_type": "message.timestamp.type"}


class _JumpingSelector(selectors.SelectSelector):
    """Does not wait: advances the clock by the timeout instead."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or self.passed_s > _MOST_S:
            raise AssertionError("everything waits, and nothing will ever happen")
        self.passed_s += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock moves only when no callback is ready."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.passed_s

    def run_in_executor(self, _executor: Any, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run the job inline; it takes no virtual time."""
        outcome = self.create_future()
        try:
            outcome.set_result(function(*args))
        except Exception as error:
            outcome.set_exception(error)
        return outcome


class _LonelyLoop(VirtualLoop):
    async def create_connection(self, *_: Any, **__: Any) -> Any:
        raise ConnectionRefusedError("no other broker runs")


class LocalBroker:
    """A broker whose handlers are called without sockets, and steps that tests repeat."""

    broker: Any
    """What the handlers get."""
    replicas: ReplicaManager
    random: Random

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.decodes_all = False

    def now_ms(self) -> int:
        return START_MS + round(self.loop.time() * 1000)

    # Client requests.

    def query(self, key: ApiKey, version: int, /, client_id: str | None = None, **fields: Any) -> Any:
        """Send a request to its handler; return a response, an awaitable, or None.

        Like the dispatcher, call `handle_frame` first if the handler has one and `decodes_all` permits it.
        """
        handlers = ROUTES[key].load("broker")
        frame = memoryview(bytearray(request_class(key)(**fields).encode(version)))
        handle_frame = None if self.decodes_all else handlers.handle_frame
        if handle_frame is not None:
            connection = Connection(1, LISTENER, "127.0.0.1")
            answer = handle_frame(self.broker, RequestHeader(key, version, 7, client_id), connection, frame, 0)
            if isinstance(answer, Deferred):
                return answer.then(partial(_decoded, key, version))
            if answer is not None:
                return _decoded(key, version, answer)
        request = request_class(key).decode(frame, version)
        context = RequestContext(key, version, 7, client_id, 1, LISTENER, "127.0.0.1")
        outcome = handlers.handle(self.broker, context, request)
        if isinstance(outcome, Deferred):
            return outcome.then(partial(_decoded, key, version))
        return _decoded(key, version, outcome)

    def answer(self, key: ApiKey, version: int, /, client_id: str | None = None, **fields: Any) -> Any:
        """Send a request and wait for its response, which must be encodable."""
        response = self.wait(self.query(key, version, client_id, **fields))
        if response is not None:
            response.encode_parts(version, b"")
        return response

    def wait(self, outcome: Any) -> Any:
        """Wait for the result of `query`, in virtual time."""

        async def it() -> Any:
            return await outcome

        return self.loop.run_until_complete(it()) if isinstance(outcome, Awaitable) else outcome

    def pass_time(self, seconds: float) -> None:
        """Advance the clock by `seconds`."""
        self.loop.run_until_complete(asyncio.sleep(seconds))

    # State.

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self.replicas.partition(topic, index)

    def append(self, topic: str, *records: RecordLike, index: int = 0, **batch: Any) -> int:
        """Append a batch as the leader, without a handler; return its base offset."""
        encoded = build_batch(records or [(None, b"value")], **{"timestamp_ms": self.now_ms()} | batch)
        return self.replicas.append(self.partition(topic, index), memoryview(encoded), 1).base_offset

    def follower_fetch(self, partition: Partition, broker: int, offset: int, log_start_offset: int = 0) -> None:
        """Fetch nothing as a follower whose log ends at `offset`, which acknowledges the records below."""
        wanted = FetchPartition(partition.topic, partition.topic_id, partition.index)
        wanted.update(
            FetchRequest.Topic.Partition(
                partition=partition.index, fetch_offset=offset, log_start_offset=log_start_offset, partition_max_bytes=0
            )
        )
        self.replicas.fetch_as_follower(partition, broker, -1, wanted, 0, min_one=False, update=True)

    def stored(self, topic: str, index: int = 0) -> list[Record]:
        """Return all records of a partition's log."""
        log = self.partition(topic, index).log
        found: list[Record] = []
        at = log.log_start_offset
        while at < log.log_end_offset:
            for batch in batches(log.read(at, 1 << 30, limit_offset=log.log_end_offset).slices):
                found += iter_records(batch)
            at = found[-1].offset + 1
        return found


class Node(LocalBroker):
    """A production broker that is its own controller; the test adds records to its metadata.

    Its background tasks do not run, and it can reach no other broker.
    """

    def __init__(self, data: str, disk: Disk | None = None, **settings: str) -> None:
        """Keep the logs in `data`; names of settings are written with _ for each dot, an empty text is the default."""
        super().__init__(_LonelyLoop())
        named = _SETTINGS | {"log.dirs": data} | {name.replace("_", "."): text for name, text in settings.items()}
        checked = check_settings({name: Option(text, "test") for name, text in named.items() if text})
        self.random = Random(1)
        self._build = partial(
            BrokerNode, checked, disk or UnsyncedDisk(), self.loop, now_ms=self.now_ms, random=self.random
        )
        self.build()

    def build(self) -> None:
        """Create the broker, also again after `end`."""
        self.node = self._build()
        self.broker: BrokerServer = present(self.node.broker)
        self.logs = self.broker.logs
        self.replicas = self.broker.replicas
        self.purgatory = self.broker.purgatory
        self.is_open = False

    @property
    def image(self) -> MetadataImage:
        return self.broker.image

    def open(self) -> None:
        """Start the controller and open the logs; the replicas do not get the metadata before `start`."""
        self.wait(self.node.open())
        self.is_open = True

    def start(self) -> None:
        """Serve the replicas that the metadata places here."""
        if not self.is_open:
            self.open()
        self.wait(self.broker.start())
        self.wait(self.broker.until_active())

    def stop(self) -> None:
        self.end()
        self.loop.close()

    def end(self) -> None:
        """Stop cleanly; `build` and `start` start again from the disk."""
        if self.is_open:
            self.is_open = False
            self.wait(self.node.stop(hand_over=False))

    def reopen(self) -> None:
        """Stop cleanly and open the data again; `start` comes next, after changes of the metadata."""
        self.end()
        self.build()
        self.open()

    def watch_steps(self, look: Callable[[], T]) -> list[T]:
        """Return a list that gets the value of `look` after each step in which replicas apply metadata.

        Called before `start`.
        """
        seen: list[T] = []
        apply = self.replicas.apply

        def watched(_old: MetadataImage, new: MetadataImage, records: Iterable[object]) -> Iterator[None]:
            for _ in apply(_old, new, records):
                seen.append(look())
                yield

        self.replicas.apply = watched  # type: ignore[method-assign]  # a probe, not a stand-in
        return seen

    def crash(self) -> None:
        """End without a write to the disk, as SIGKILL does."""
        self.is_open = False
        self.wait(self.node.shared.server.stop(0))
        for directory in self.logs.directories:
            directory.close(clean=False)
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.stop()

    # Controller decisions.

    def commit(self, *records: Message) -> None:
        """Append records to the metadata, and return when they are published; at once if the loop runs."""
        if not self.is_open:
            self.open()
        committed = self.broker.raft.submit(lambda _: ControllerResult(records, None))
        if self.loop.is_running():
            self.loop.create_task(committed)
        else:
            self.wait(committed)

    def create(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replicas: Sequence[int] = (NODE_ID,),
        leader: int = NODE_ID,
        topic_id: bytes | None = None,
        config: LogConfig = _DEFAULTS,
    ) -> bytes:
        """Create a topic and return its id."""
        topic_id = topic_id or topic.encode().ljust(16, b"_")
        self.commit(*topic_records(topic, topic_id, partitions, replicas, leader, config))
        return topic_id

    def remove(self, topic: str) -> None:
        known = self.image.topic(topic)
        assert known is not None
        self.commit(RemoveTopicRecord(topic_id=known.topic_id))

    def elect(self, topic: str, leader: int, *, isr: list[int] | None = None, index: int = 0) -> None:
        """Make a broker leader in a new epoch; it may be the present leader."""
        known = self.image.topic(topic)
        assert known is not None
        self.commit(PartitionChangeRecord(partition_id=index, topic_id=known.topic_id, leader=leader, isr=isr))

    def shrink(self, topic: str, isr: list[int]) -> None:
        known = self.image.topic(topic)
        assert known is not None
        self.commit(PartitionChangeRecord(partition_id=0, topic_id=known.topic_id, isr=isr))

    def configure(self, topic: str, **changes: Any) -> None:
        """Alter a topic's configuration."""
        self.commit(*config_records(topic, changes))

    def register(self, broker: int, host: str, port: int) -> None:
        self.commit(
            RegisterBrokerRecord(
                broker_id=broker,
                incarnation_id=bytes(16),
                broker_epoch=broker,
                end_points=[RegisteredListener(name=LISTENER, host=host, port=port, security_protocol=0)],
                features=[],
                rack=None,
                fenced=False,
            )
        )
        assert self.image.brokers[broker].endpoints[LISTENER] == Endpoint(host, port)


def topic_records(
    topic: str,
    topic_id: bytes,
    partitions: int = 1,
    replicas: Sequence[int] = (NODE_ID,),
    leader: int = NODE_ID,
    config: LogConfig = _DEFAULTS,
) -> list[Message]:
    """Return the records that create a topic."""
    configs = {name: value for name, value in config._asdict().items() if value != getattr(_DEFAULTS, name)}
    return [
        TopicRecord(name=topic, topic_id=topic_id),
        *config_records(topic, configs),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=list(replicas),
                removing_replicas=[],
                adding_replicas=[],
                leader=leader,
                leader_epoch=0,
                partition_epoch=0,
                directories=[bytes(16)] * len(replicas),
            )
            for index in range(partitions)
        ),
    ]


def config_records(topic: str, changes: Mapping[str, Any]) -> list[ConfigRecord]:
    """Return the records that set a topic's configs to values of LogConfig's fields."""
    return [
        ConfigRecord(
            resource_type=2,
            resource_name=topic,
            name=_CONFIG_NAMES.get(name, name.replace("_", ".")),
            value=",".join(sorted(value)) if isinstance(value, frozenset) else str(value),
        )
        for name, value in changes.items()
    ]


def _decoded(key: ApiKey, version: int, answer: Any) -> Any:
    """Return the response in a frame or its parts, after checking size and correlation id.

    Anything else is already the response or an awaitable of it.
    """
    if not isinstance(answer, (bytes, list)):
        return answer
    frame = answer if isinstance(answer, bytes) else read_parts(answer)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, body_at = decode_response_header(key, version, frame[4:])
    assert correlation_id == 7
    return response_class(key).decode(frame[4:], version, body_at)


def stored_bytes(records: Any) -> bytes:
    """Return the bytes of a response's records, in memory or in a file."""
    return read_parts(records) if isinstance(records, list) else bytes(records)


def batches(records: Any) -> list[bytes]:
    """Return the batches of a response's records."""
    data = stored_bytes(records)
    return [data[at : at + header.size_bytes] for at, header in iter_batches(data)]
