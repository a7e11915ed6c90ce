"""Three production brokers in the simulator that replicate from each other, and their controller: fixture `cluster`.

The test adds the partitions and their elections to the controller's metadata. It can delay the metadata of a broker,
pause the controller, and see the requests between the nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable
from random import Random
from typing import Any, TypeVar

from controller.commands.controller_result import ControllerResult
from controller.image import MetadataImage
from protocol.api import ApiKey, request_class
from protocol.headers import decode_request_header
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from protocol.records.metadata import PartitionChangeRecord, PartitionRecord, TopicRecord
from protocol.schema import Message
from simulation.cluster import PORT
from simulation.transport import Transport
from tests.simulation.client import Lost
from tests.typed import present
from tests.unit.broker.node import LocalBroker, config_records
from tests.unit.broker.whole_cluster import BROKER, CONTROLLER, WholeCluster

LAG_MAX_MS = 10_000
LINK_S = 0.001
MAX_WAIT_S = 0.5
TOPIC_ID = b"t" * 16
BROKERS = (1, 2, 3)
CONTROLLER_ID = 4

T = TypeVar("T", bound=Message)


class Member(LocalBroker):
    """A running broker of the cluster, for calls without the network."""

    def __init__(self, cluster: ReplicaCluster, node_id: int) -> None:
        self._cluster = cluster
        self._host = cluster.hosts[node_id]
        self.broker = cluster.broker(node_id)
        self.replicas = self.broker.replicas
        self.replication = self.broker.replication
        self.random = Random(1)
        super().__init__(present(self._host.loop))  # type: ignore[arg-type]  # a loop of the simulator

    def now_ms(self) -> int:
        return self._host.now_ms()

    def wait(self, outcome: Any) -> Any:
        return self._cluster.wait_on(self._host.node_id, outcome)


class ReplicaCluster(WholeCluster):
    """Brokers 1 to 3, started; topic `t` is the one of most tests."""

    def __init__(self) -> None:
        super().__init__(
            dict.fromkeys(BROKERS, BROKER) | {CONTROLLER_ID: CONTROLLER},
            min_insync_replicas="1",
            replica_lag_time_max_ms=str(LAG_MAX_MS),
            broker_heartbeat_interval_ms="14000",
            broker_session_timeout_ms="40000",
            auto_leader_rebalance_enable="false",
            barnabas_cluster_id="AAAAAAAAAAAAAAAAAAAAAQ",
        )
        self.sent: dict[int, list[Message]] = {node_id: [] for node_id in self.roles}
        """The requests of each node to brokers, and AlterPartition requests."""
        self._delayed: set[int] = set()
        self._connect = self.world.network.connect
        self.world.network.connect = self._connect_watched  # type: ignore[method-assign]  # a probe, not a stand-in
        for host in self.hosts.values():
            host.clock = (0.0, 1.0)
            for other in self.hosts.values():
                self.world.network.link(host.name, other.name).latency_s = LINK_S
        self.start()

    def start(self, *node_ids: int) -> None:
        """Start nodes, with their newest metadata; return when they serve."""
        for node_id in self._delayed.intersection(node_ids):
            self._delayed.remove(node_id)
            self.cut(node_id, CONTROLLER_ID, up=True)
        super().start(*node_ids)

    def __getitem__(self, node_id: int) -> Member:
        return Member(self, node_id)

    def wait_on(self, node_id: int, outcome: Any) -> Any:
        """Wait on a node's loop for an outcome that may be awaitable."""

        async def awaited() -> Any:
            return await outcome if isinstance(outcome, Awaitable) else outcome

        return self.schedule.run(present(self.hosts[node_id].loop), awaited())

    # The network.

    async def _connect_watched(self, loop: Any, factory: Any, host: str, port: int) -> Any:
        transport, protocol = await self._connect(loop, factory, host, port)
        if loop.host != "client":
            self._watch(int(loop.host[1:]), port, transport)
        return transport, protocol

    def _watch(self, source: int, port: int, transport: Transport) -> None:
        pending, write = bytearray(), transport.write

        def watched(data: Any) -> None:
            pending.extend(data)
            while len(pending) >= 4 and len(pending) >= (end := 4 + int.from_bytes(pending[:4], "big")):
                frame = memoryview(bytes(pending[4:end]))
                header, at = decode_request_header(frame)
                if port == PORT or header.api_key == ApiKey.ALTER_PARTITION:
                    request = request_class(ApiKey(header.api_key)).decode(frame, header.api_version, at)
                    self.sent[source].append(request)
                del pending[:end]
            write(data)

        transport.write = watched  # type: ignore[method-assign]  # a probe, not a stand-in

    def sent_by(self, source: int, kind: type[T]) -> list[T]:
        return [one for one in self.sent[source] if isinstance(one, kind)]

    def reset(self, one: int, other: int) -> None:
        """Break the connections between two nodes."""
        network = self.world.network
        for transport in list(network.transports.values()):
            if {transport.loop.host, transport.peer.loop.host} == {f"b{one}", f"b{other}"}:
                network.reset(transport)

    def mend(self) -> None:
        """Restore the network between the brokers."""
        for one in BROKERS:
            for other in BROKERS:
                if one < other:
                    self.cut(one, other, up=True)

    # The controller.

    def delay(self, node_id: int) -> None:
        """Let a broker get no metadata before `catch_up`."""
        self._delayed.add(node_id)
        self.cut(node_id, CONTROLLER_ID)

    def catch_up(self, node_id: int) -> None:
        """Deliver the delayed metadata changes, and later ones at once."""
        self._delayed.discard(node_id)
        self.cut(node_id, CONTROLLER_ID, up=True)
        self.until_applied(node_id)

    def until_applied(self, node_id: int) -> None:
        """Wait until a node has the controller's metadata."""
        self.wait_on(node_id, self.raft(node_id).until_applied(self.image.offset))

    @property
    def image(self) -> MetadataImage:
        """The controller's metadata."""
        return self.raft(CONTROLLER_ID).image

    def commit(self, *records: Message) -> None:
        """Append to the metadata, and wait until each running broker whose metadata is not delayed has applied it."""
        self.wait_on(CONTROLLER_ID, self.submit(*records))
        for node_id in self.running:
            if node_id not in self._delayed:
                self.until_applied(node_id)

    def submit(self, *records: Message) -> Coroutine[Any, Any, None]:
        """Append to the metadata; awaited on the controller's loop."""
        return self.raft(CONTROLLER_ID).submit(lambda _: ControllerResult(records, None))

    def pause_controller(self) -> None:
        self.hosts[CONTROLLER_ID].pause()

    def resume_controller(self) -> None:
        self.hosts[CONTROLLER_ID].resume()

    def place(self, *replicas: int, isr: Iterable[int] | None = None, topic: str = "t", **config: Any) -> None:
        """Create a topic of one partition, led by the first of its replicas."""
        topic_id = topic.encode() * 16
        self.commit(
            TopicRecord(name=topic, topic_id=topic_id),
            *config_records(topic, config),
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
                directories=[self.image.brokers[one].directories[0] for one in replicas],
            ),
        )

    def elect(self, leader: int, isr: Iterable[int] | None = None) -> None:
        """Make a broker leader in a new epoch."""
        members = None if isr is None else list(isr)
        self.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=leader, isr=members))

    @property
    def isr(self) -> set[int]:
        """The committed ISR."""
        return set(present(self.image.partition("t", 0)).isr)

    @property
    def leader(self) -> int:
        return present(self.image.partition("t", 0)).leader

    # Clients and time.

    def append(self, *values: bytes, topic: str = "t") -> None:
        """Append a batch at the leader, without waiting for replication."""
        self[self.leader].append(topic, *((None, value) for value in values))

    def producing(self, value: bytes, *, topic: str = "t", timeout_ms: int = 5000) -> asyncio.Task[Any]:
        """Produce with acks=all at the leader; return a task for the response."""
        batch = build_batch([(None, value)], timestamp_ms=self.hosts[self.leader].now_ms())
        partitions = [ProduceRequest.Topic.Partition(index=0, records=batch)]
        topics = [ProduceRequest.Topic(name=topic, partition_data=partitions)]
        task: asyncio.Task[Any] = self.querying(
            self.leader,
            ApiKey.PRODUCE,
            9,
            transactional_id=None,
            acks=-1,
            timeout_ms=timeout_ms,
            topic_data=topics,
        )
        return task

    def code(self, producing: asyncio.Task[Any]) -> int:
        """Wait for the outcome of `producing`, and return its error code; -1 if the response is lost."""
        try:
            code: int = self.wait(producing).responses[0].partition_responses[0].error_code
        except Lost:
            return -1
        return code

    def ends(self, topic: str = "t") -> dict[int, tuple[int, int]]:
        """Return high watermark and log end of each running broker's replica."""
        logs = {node_id: partition.log for node_id, partition in self._replicas(topic).items()}
        return {node_id: (log.high_watermark, log.log_end_offset) for node_id, log in logs.items()}

    def stored(self, node_id: int) -> list[bytes | None]:
        return [record.value for record in self[node_id].stored("t")]

    def bytes_of(self, node_id: int) -> bytes:
        """Return the bytes of all segments of the log of `t`, in their order."""
        return b"".join(self.segments(node_id, "t"))

    def equal(self) -> bool:
        """Return whether the logs of all running replicas have the same bytes and the same leader epochs."""
        replicas = self._replicas("t")
        epochs = {
            tuple(epoch for epoch in one.log.leader_epochs.entries if epoch.start_offset < one.log.log_end_offset)
            for one in replicas.values()
        }
        return len({self.bytes_of(node_id) for node_id in replicas}) == 1 and len(epochs) == 1

    def _replicas(self, topic: str) -> dict[int, Any]:
        found = {one: self.broker(one).replicas.find_named(topic, 0) for one in self.running if one in BROKERS}
        return {node_id: partition for node_id, partition in found.items() if partition is not None}
