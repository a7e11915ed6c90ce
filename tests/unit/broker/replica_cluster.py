"""Brokers that replicate from each other, on real logs, in virtual time: fixture `cluster`.

Real parts of each: handlers, replica manager, fetchers and ISR manager; requests between them are encoded and decoded.
The network is a table of links with a latency of 1 ms, each of which can be cut. The controller's commands are real,
its log is a list of records, which reach each broker at once or when the test delivers them.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Iterable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from broker.monitoring.counters import Metrics
from broker.network.connection import RequestContext
from broker.replication.fetch_sessions import FetchSessions
from broker.replication.fetcher_state import FetchLimits
from broker.replication.replica_fetcher_manager import ReplicaFetcherManager
from broker.replication.replica_manager import ReplicaManager
from broker.routes import ROUTES
from broker.runtime.deferred import Deferred
from broker.runtime.purgatory_driver import PurgatoryDriver
from broker.runtime.rate_limited_log import LogOnce
from controller.commands.alter_partition import alter_partition
from controller.image import MetadataImage
from controller.image_builder import apply_records
from protocol.api import ApiKey, request_class, response_class
from protocol.headers import decode_response_header
from protocol.messages.alter_partition import AlterPartitionRequest
from protocol.messages.broker_registration import RegisteredListener
from protocol.messages.produce import ProduceRequest
from protocol.primitives import read_parts
from protocol.record_batch import build_batch
from protocol.records.metadata import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)
from protocol.schema import Message
from storage.disk import OsDisk
from storage.log.config import LogConfig
from storage.log_manager import LogManager
from tests.typed import present
from tests.unit.broker.node import LISTENER, LocalBroker, VirtualLoop

LINK_S = 0.001
LAG_MAX_MS = 10_000
FETCH_VERSION = 17
TOPIC_ID = b"t" * 16


class Member(LocalBroker):
    """One broker of the cluster."""

    def __init__(self, cluster: Cluster, node_id: int, data: str) -> None:
        super().__init__(cluster.loop)
        self.broker = self
        self.node_id = node_id
        self.settings = {"fetch.max.bytes": 55 << 20, "barnabas.validate.records": False}
        self.metrics = Metrics()
        self.random = Random(1)
        self.refused_transactions = LogOnce()
        self.image = cluster.image
        self.driver = PurgatoryDriver(self.loop)
        self.purgatory = self.driver.purgatory
        self.logs = LogManager(OsDisk(), [data], LogConfig(), now_ms=self.now_ms, random=self.random)
        self.cluster = cluster
        self.replicas = ReplicaManager(
            node_id,
            metadata=self,
            logs=self.logs,
            purgatory=self.purgatory,
            fetch_sessions=FetchSessions(4, self.purgatory, self.random),
            loop=self.loop,
            now_ms=self.now_ms,
            topic_config=lambda _, topic: cluster.configs.get(topic, LogConfig()),
        )
        self.replication = ReplicaFetcherManager(
            self.loop,
            self.node_id,
            self.replicas,
            cluster_id="test",
            connect_broker=partial(Link, self.cluster, self.node_id),
            send_to_controller=partial(self.cluster.send_to_controller, self.node_id),
            broker_epoch=lambda: self.broker_epoch,
            limits=self.cluster.limits,
            lag_max_ms=LAG_MAX_MS,
        )
        self.delayed: list[tuple[MetadataImage, MetadataImage, tuple[object, ...]]] | None = None
        """Metadata changes that are not yet delivered; None: changes are delivered at once."""
        self.broker_epoch = -1
        self.running = False
        self.sent: list[Message] = []

    def begin(self) -> None:
        """Start with the cluster's metadata."""
        self.image = self.cluster.image
        self.running = True
        self.logs.open()
        self.logs.format("test", self.node_id)
        for _ in self.logs.load():
            pass
        self.replication.start()
        self.replicas.load(self.image)

    def take(self, old: MetadataImage, new: MetadataImage, records: tuple[object, ...]) -> None:
        """Apply a metadata change."""
        self.image = new
        for _ in self.replicas.apply(old, new, records):
            pass
        for _ in self.replication.apply(old, new, records):
            pass

    def catch_up(self) -> None:
        """Deliver the delayed metadata changes, and later ones at once."""
        delayed, self.delayed = self.delayed or [], None
        for change in delayed:
            self.take(*change)

    def end(self, *, clean: bool = True) -> None:
        """Stop; written data stays."""
        if self.running:
            self.running = False
            self.replication.stop()
            self.purgatory.run(float("inf"))  # Expire all pending operations.
            self.driver.stop()
            if clean:
                self.logs.close()
            else:
                for directory in self.logs.directories:
                    directory.close(clean=False)

    def bytes_of(self, topic: str = "t", index: int = 0) -> bytes:
        """Return the bytes of all segments of a log, in their order."""
        log = self.partition(topic, index).log
        return b"".join(path.read_bytes() for path in sorted(Path(log.directory).glob("*.log")))


class Link:
    """A connection from one broker to another."""

    def __init__(self, cluster: Cluster, source: int, target: int) -> None:
        self._cluster = cluster
        self._ends = (source, target)
        self._waiting: list[asyncio.Future[Message | None]] = []
        cluster.links.append(self)

    def call(self, request: Message, *, min_version: int = 0) -> asyncio.Future[Message | None]:
        """Send a request; return the decoded response, or None if the link is cut before it arrives."""
        loop = self._cluster.loop
        answer: asyncio.Future[Message | None] = loop.create_future()
        self._waiting.append(answer)
        version = max(min_version, 1) if request.API_KEY != ApiKey.FETCH else FETCH_VERSION
        self._cluster.members[self._ends[0]].sent.append(request)
        frame = memoryview(bytearray(request.encode(version)))
        loop.call_later(LINK_S, self._arrive, ApiKey(present(request.API_KEY)), version, frame, answer)
        return answer

    def close(self) -> None:
        """Drop everything in flight."""
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            if not answer.done():
                answer.set_result(None)

    def connects_brokers(self, source: int, target: int) -> bool:
        """Return whether this connection links these two brokers."""
        return {source, target} == set(self._ends)

    def _arrive(self, key: ApiKey, version: int, frame: memoryview, answer: asyncio.Future[Message | None]) -> None:
        source, target = self._ends
        member = self._cluster.members[target]
        if not self._cluster.reaches(source, target):
            self._settle(answer, None)
            return
        request = request_class(key).decode(frame, version)
        context = RequestContext(key, version, 7, None, 1, LISTENER, "127.0.0.1")
        outcome = ROUTES[key].load("broker").handle(member, context, request)
        if isinstance(outcome, Deferred):
            outcome.add_done_callback(lambda done: self._answer(key, version, done.result(), answer))
        elif isinstance(outcome, Awaitable):
            task = asyncio.ensure_future(outcome, loop=self._cluster.loop)
            task.add_done_callback(lambda done: self._answer(key, version, done.result(), answer))
        else:
            self._answer(key, version, outcome, answer)

    def _answer(self, key: ApiKey, version: int, outcome: Any, answer: asyncio.Future[Message | None]) -> None:
        self._cluster.loop.call_later(LINK_S, self._settle, answer, through_bytes(key, version, outcome))

    def _settle(self, answer: asyncio.Future[Message | None], response: Message | None) -> None:
        if not answer.done():
            answer.set_result(response if self._cluster.reaches(*self._ends) else None)
            self._waiting.remove(answer)


def through_bytes(key: ApiKey, version: int, outcome: Any) -> Message:
    """Return the response as a client decodes it."""
    if isinstance(outcome, list):
        frame, at = read_parts(outcome)[4:], decode_response_header(key, version, read_parts(outcome)[4:])[1]
    else:
        frame, at = read_parts(outcome.encode_parts(version, b"")), 0
    return response_class(key).decode(memoryview(frame), version, at)


class Cluster:
    """Brokers 1 to `size`, and their controller."""

    def __init__(self, path: Path, size: int = 3, limits: FetchLimits | None = None) -> None:
        self.path = path
        self.loop = VirtualLoop()
        self.limits = limits or FetchLimits()
        self.image = MetadataImage(cluster_id="test")
        self.configs: dict[str, LogConfig] = {}
        self.links: list[Link] = []
        self.cuts: set[frozenset[int]] = set()
        self.holds_controller = False
        self.held: list[tuple[AlterPartitionRequest, asyncio.Future[Message | None]]] = []
        self.members: dict[int, Member] = {}
        for broker in range(1, size + 1):
            self.start(broker)

    def close(self) -> None:
        for member in self.members.values():
            member.end()
        self.loop.close()

    # Brokers.

    def start(self, broker: int, *, fenced: bool = False) -> Member:
        """Start a broker, with a new registration."""
        member = self.members[broker] = Member(self, broker, str(self.path / f"broker-{broker}"))
        member.broker_epoch = self.image.offset + 1
        self.commit(
            RegisterBrokerRecord(
                broker_id=broker,
                incarnation_id=bytes(16),
                broker_epoch=member.broker_epoch,
                end_points=[RegisteredListener(name=LISTENER, host="h", port=broker, security_protocol=0)],
                features=[],
                rack=None,
                fenced=fenced,
            )
        )
        member.begin()
        return member

    def unfence(self, broker: int) -> None:
        self.commit(UnfenceBrokerRecord(id=broker, epoch=self.members[broker].broker_epoch))

    def stop(self, broker: int) -> None:
        """Stop a broker; requests to it are lost."""
        self.members[broker].end()
        for link in self.links:
            if any(link.connects_brokers(broker, other) for other in self.members):
                link.close()

    def crash(self, broker: int) -> None:
        """Stop a broker without further writes to its disk."""
        self.members[broker].end(clean=False)
        self.stop(broker)

    def wipe(self, broker: int) -> None:
        """Replace the disk of a stopped broker by an empty one."""
        shutil.rmtree(self.path / f"broker-{broker}")

    def __getitem__(self, broker: int) -> Member:
        return self.members[broker]

    # The network.

    def reaches(self, source: int, target: int) -> bool:
        ends = (source, target)
        return all(self.members[end].running for end in ends) and frozenset(ends) not in self.cuts

    def cut(self, one: int, other: int) -> None:
        """Cut the link between two brokers."""
        self.cuts.add(frozenset((one, other)))
        for link in self.links:
            if link.connects_brokers(one, other):
                link.close()

    def mend(self) -> None:
        self.cuts.clear()

    # The controller.

    def commit(self, *records: object) -> None:
        """Append to the metadata; brokers whose metadata is not delayed apply it at once."""
        old = self.image
        self.image = apply_records(old, records, offset=old.offset + len(records), epoch=1)
        for member in self.members.values():
            if member.delayed is not None:
                member.delayed.append((old, self.image, records))
            elif member.running:
                member.take(old, self.image, records)

    def send_to_controller(self, source: int, request: Message) -> asyncio.Future[Message | None]:
        assert isinstance(request, AlterPartitionRequest)
        answer: asyncio.Future[Message | None] = self.loop.create_future()
        self.members[source].sent.append(request)
        self.held.append((request, answer))
        if not self.holds_controller:
            self.loop.call_later(LINK_S, self.decide)
        return answer

    def decide(self, *, answered: bool = True) -> None:
        """Process the pending requests; the responses follow the metadata, or are dropped."""
        held, self.held = self.held, []
        for request, answer in held:
            decision = alter_partition(self.image, request)
            if decision.records:
                self.commit(*decision.records)
            if not answer.done():
                answer.set_result(decision.response if answered else None)

    def create(self, *replicas: int, isr: Iterable[int] | None = None, topic: str = "t", **config: Any) -> None:
        """Create a topic of one partition, led by the first of its replicas."""
        self.configs[topic] = LogConfig(**config)
        topic_id = topic.encode() * 16
        self.commit(
            TopicRecord(name=topic, topic_id=topic_id),
            PartitionRecord(
                partition_id=0,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=list(isr or replicas),
                removing_replicas=[],
                adding_replicas=[],
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[bytes(16)] * len(replicas),
            ),
        )

    def elect(self, leader: int, isr: Iterable[int] | None = None) -> None:
        """Make a broker leader in a new epoch."""
        members = None if isr is None else list(isr)
        self.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=leader, isr=members))

    @property
    def isr(self) -> set[int]:
        """Return the committed ISR."""
        state = self.image.partition("t", 0)
        assert state is not None
        return set(state.isr)

    # Clients and time.

    def append(self, *values: bytes, topic: str = "t") -> None:
        """Append a batch at the leader, without waiting for replication."""
        self.members[self.leader].append(topic, *((None, value) for value in values))

    @property
    def leader(self) -> int:
        state = self.image.partition("t", 0)
        assert state is not None
        return state.leader

    def produce(self, value: bytes, *, topic: str = "t", timeout_ms: int = 5000) -> Any:
        """Produce with acks=all at the leader; return the result of its handler."""
        batch = build_batch([(None, value)], timestamp_ms=self.members[self.leader].now_ms())
        partitions = [ProduceRequest.Topic.Partition(index=0, records=batch)]
        return self.members[self.leader].query(
            ApiKey.PRODUCE,
            12,
            acks=-1,
            timeout_ms=timeout_ms,
            topic_data=[ProduceRequest.Topic(name=topic, partition_data=partitions)],
        )

    def code(self, produced: Any) -> int:
        """Wait for the outcome of `produce`, and return its error code."""
        code: int = self.members[self.leader].wait(produced).responses[0].partition_responses[0].error_code
        return code

    def pass_time(self, seconds: float = 1.0) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def ends(self, topic: str = "t") -> dict[int, tuple[int, int]]:
        """Return high watermark and log end of each running broker's replica."""
        found = {}
        for broker, member in self.members.items():
            if member.running and member.replicas.find_named(topic, 0) is not None:
                log = member.partition(topic).log
                found[broker] = (log.high_watermark, log.log_end_offset)
        return found

    def values(self, broker: int) -> list[bytes | None]:
        return [record.value for record in self.members[broker].stored("t")]

    def equal(self) -> bool:
        """Return whether the logs of all running replicas have the same bytes and the same leader epochs."""
        members = [one for one in self.members.values() if one.running and one.replicas.find_named("t", 0) is not None]
        logs = [one.partition("t").log for one in members]
        epochs = {
            tuple(epoch for epoch in log.leader_epochs.entries if epoch.start_offset < log.log_end_offset)
            for log in logs
        }
        return len({one.bytes_of() for one in members}) == 1 and len(epochs) == 1
