"""The parts of a broker that serve records, on real logs, in virtual time and without sockets: fixture `node`.

A test writes the cluster's metadata, sends requests to the handlers as a client would (each is encoded and decoded),
and waits for time to pass: the loop's clock jumps to the next timer.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

from broker.metadata.producer_id_manager import ProducerIdManager
from broker.metadata.suspected_leaders import SuspectedLeaders
from broker.monitoring.counters import Metrics
from broker.monitoring.telemetry import Telemetry
from broker.network.connection import Connection, RequestContext
from broker.replication.fetch_sessions import FetchPartition, FetchSessions
from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager
from broker.routes import ROUTES
from broker.runtime.deferred import Deferred
from broker.runtime.purgatory_driver import PurgatoryDriver
from broker.runtime.rate_limited_log import LogOnce
from controller.image import Endpoint, MetadataImage
from controller.image_builder import apply_records
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
from storage.disk import Disk, OsDisk
from storage.log.config import LogConfig
from storage.log_manager import LogManager

NODE_ID = 1
START_MS = 1_700_000_000_000
LISTENER = "PLAINTEXT"


class _JumpingSelector(selectors.SelectSelector):
    """Does not wait: advances the clock by the timeout instead."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
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


class Node:
    """One broker, by default 1, of a cluster whose metadata the test writes."""

    def __init__(
        self, data: str, disk: Disk | None = None, *, node_id: int = NODE_ID, loop: VirtualLoop | None = None
    ) -> None:
        self.node_id = node_id
        self.loop = loop or VirtualLoop()
        self.driver = PurgatoryDriver(self.loop)
        self.purgatory = self.driver.purgatory
        self.settings: dict[str, Any] = {"fetch.max.bytes": 55 << 20, "barnabas.validate.records": False}
        self.metrics = Metrics()
        self.random = Random(1)
        self.logs = LogManager(disk or OsDisk(), [data], LogConfig(), now_ms=self.now_ms, random=self.random)
        self.configs: dict[str, LogConfig] = {}
        self.image = MetadataImage(cluster_id="test")
        self._opened = False
        self.node_clients = SimpleNamespace(suspects=SuspectedLeaders(self.loop, 0.5))
        self.refused_transactions = LogOnce()
        self.telemetry = Telemetry(self.random, 1 << 20)
        self.allocated = 0
        self.decodes_all = False
        self.producer_ids = ProducerIdManager(self._allocate)
        self.replicas = self._replicas(slots=4)

    def _replicas(self, slots: int) -> ReplicaManager:
        return ReplicaManager(
            self.node_id,
            metadata=self,
            logs=self.logs,
            purgatory=self.purgatory,
            fetch_sessions=FetchSessions(slots, self.purgatory, self.random),
            loop=self.loop,
            now_ms=self.now_ms,
            topic_config=lambda _, topic: self.configs.get(topic, LogConfig()),
        )

    def now_ms(self) -> int:
        return START_MS + round(self.loop.time() * 1000)

    async def _allocate(self) -> range:
        self.allocated += 1
        return range(self.allocated * 1000, self.allocated * 1000 + 2)

    def start(self, *, slots: int = 4) -> None:
        """Open the logs on disk and serve the replicas that the metadata places here."""
        self.logs.open()
        self.logs.format("test", self.node_id)
        for _ in self.logs.load():
            pass
        self.replicas = self._replicas(slots)
        self._wire()
        self.replicas.load(self.image)
        self._opened = True

    def _wire(self) -> None:
        """Attach the parts that must exist before the replicas receive the metadata."""

    def stop(self) -> None:
        if self._opened:
            self.logs.close()
        self.driver.stop()
        self.loop.close()

    # Controller decisions.

    def commit(self, *records: object) -> None:
        for _ in self.commit_in_steps(*records):
            pass

    def commit_in_steps(self, *records: object) -> Iterator[None]:
        old = self.image
        self.image = apply_records(old, records, offset=old.offset + len(records), epoch=1)
        if self._opened:
            yield from self.replicas.apply(old, self.image, records)

    def create(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replicas: Iterable[int] = (NODE_ID,),
        leader: int = NODE_ID,
        topic_id: bytes | None = None,
        config: LogConfig | None = None,
    ) -> bytes:
        """Create a topic and return its id."""
        topic_id = topic_id or topic.encode().ljust(16, b"_")
        self.configs[topic] = config or LogConfig()
        members = list(replicas)
        self.commit(
            TopicRecord(name=topic, topic_id=topic_id),
            *(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=members,
                    isr=members,
                    removing_replicas=[],
                    adding_replicas=[],
                    leader=leader,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[bytes(16)] * len(members),
                )
                for index in range(partitions)
            ),
        )
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
        self.configs[topic] = self.configs[topic]._replace(**changes)
        self.commit(ConfigRecord(resource_type=2, resource_name=topic, name="whatever", value="1"))

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
            answer = handle_frame(self, RequestHeader(key, version, 7, client_id), connection, frame, 0)
            if isinstance(answer, Deferred):
                return answer.then(partial(_decoded, key, version))
            if answer is not None:
                return _decoded(key, version, answer)
        request = request_class(key).decode(frame, version)
        context = RequestContext(key, version, 7, client_id, 1, LISTENER, "127.0.0.1")
        outcome = handlers.handle(self, context, request)
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
