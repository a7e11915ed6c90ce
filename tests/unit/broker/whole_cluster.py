"""Several whole brokers and controllers in virtual time, on simulated disks and a simulated network.

Only what lies outside of a process is simulated. Node n runs on host bn. Hours pass in seconds, and each run of a test
is identical. An unexpected event that the node survives, such as a traceback in the log, fails the test.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

from broker.broker_server import BrokerServer
from broker.metadata.raft_driver import RaftDriver
from broker.node import Node
from broker.settings import Option, Settings, check_settings
from protocol.api import ApiKey, request_class
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.record_batch import build_batch, iter_batches, iter_records
from simulation.cluster import CONTROLLER_PORT, DATA_DIR, PORT, Host, World
from simulation.disk import SimulatedDisk
from simulation.loop import Schedule, Trace
from simulation.memory_disk import FileNode, walk
from simulation.network import Network
from tests.simulation.client import Client
from tests.typed import present

BOTH, BROKER, CONTROLLER = "broker,controller", "broker", "controller"
_MOST_S = 120.0
_STEP_S = 0.005


def node_settings(node_id: int, roles: Mapping[int, str], **settings: str) -> Settings:
    """Return the settings of a node; names of settings are written with _ for each dot."""
    own = roles[node_id]
    listeners = [f"PLAINTEXT://b{node_id}:{PORT}"] if "broker" in own else []
    listeners += [f"CONTROLLER://b{node_id}:{CONTROLLER_PORT}"] if "controller" in own else []
    voters = [f"{other}@b{other}:{CONTROLLER_PORT}" for other, of in roles.items() if "controller" in of]
    named = {
        "node.id": str(node_id),
        "process.roles": own,
        "log.dirs": DATA_DIR,
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(voters),
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "offsets.topic.num.partitions": "1",
    }
    named |= {name.replace("_", "."): text for name, text in settings.items()}
    return check_settings({name: Option(text, "test") for name, text in named.items() if text})


class WholeCluster:
    """The nodes, and a client."""

    def __init__(self, roles: Mapping[int, str] | None = None, *, seed: int = 1, **settings: str) -> None:
        """Map node ids to `roles`; by default three combined nodes. None is started."""
        self.roles = roles or dict.fromkeys((1, 2, 3), BOTH)
        self.schedule = Schedule(Random(seed), Trace())
        self.world = World(seed, self.schedule, Network(self.schedule, Random(seed)))
        self.schedule.after_event = lambda _: self._raise_found()
        self.hosts: dict[int, Host] = {}
        self.settings = settings
        for node_id in self.roles:
            self.add(node_id)
        self._fate = self.schedule.loop("client")
        self._client = Client(self.world, self._fate, "test", [])
        self._client.timeout_s = 60.0

    def add(self, node_id: int, **settings: str) -> Host:
        """Add a machine for a node, or replace its machine."""
        of_node = node_settings(node_id, self.roles, **self.settings, **settings)
        host = self.hosts[node_id] = Host(self.world, f"b{node_id}", of_node, [])
        host.disk.waiting_share = 0.0
        return host

    def _raise_found(self) -> None:
        if self.world.found is not None:
            raise self.world.found

    # Events.

    def wait(self, awaitable: Awaitable[Any]) -> Any:
        async def awaited() -> Any:
            return await awaitable

        return self.schedule.run(self._fate, awaited())

    def until(self, condition: Callable[[], Any], what: str = "") -> Any:
        """Let time pass until `condition` holds; return its value."""
        ends = self.schedule.now + _MOST_S
        while not (found := condition()):
            assert self.schedule.now < ends, f"never: {what or condition}"
            self.let_pass(_STEP_S)
        return found

    def let_pass(self, seconds: float) -> None:
        passed = self._fate.create_future()
        self._fate.call_later(seconds, passed.set_result, None)
        self.wait(passed)

    def start(self, *node_ids: int) -> None:
        """Start the given nodes, by default all; return when they serve."""
        for node_id in node_ids or self.hosts:
            self.hosts[node_id].start()
        self.until(lambda: all(self.hosts[node_id].state == "up" for node_id in node_ids or self.hosts), "started")

    def stop(self, *node_ids: int) -> None:
        """Stop nodes as SIGTERM does; return when they have ended."""
        for node_id in node_ids:
            self.hosts[node_id].stop()
        self.until(lambda: all(self.hosts[node_id].state == "off" for node_id in node_ids), "stopped")

    def kill(self, node_id: int) -> None:
        self.hosts[node_id].crash()

    def wipe(self, node_id: int) -> None:
        """Replace the disk of a stopped node by an empty one."""
        host = self.hosts[node_id]
        host.disk = SimulatedDisk(Random(node_id), self.schedule.trace, self.world.network)
        host.disk.waiting_share = 0.0

    def cut(self, one: int, other: int, *, up: bool = False) -> None:
        """Cut the network between two nodes, or restore it."""
        for source, target in ((one, other), (other, one)):
            self.world.network.link(f"b{source}", f"b{target}").up = up

    def close(self) -> None:
        for loop in self.schedule.loops:
            loop.die()

    # State.

    def node(self, node_id: int) -> Node:
        return present(self.hosts[node_id].node)

    def raft(self, node_id: int) -> RaftDriver:
        return self.node(node_id).shared.raft

    def broker(self, node_id: int) -> BrokerServer:
        return present(self.node(node_id).broker)

    @property
    def running(self) -> list[int]:
        return [node_id for node_id, host in self.hosts.items() if host.state == "up"]

    @property
    def active(self) -> int:
        """The active controller's node, once there is one."""
        return self.until(  # type: ignore[no-any-return]
            lambda: next((node_id for node_id in self.running if self.raft(node_id).leads), None),
            "an active controller",
        )

    def follower(self) -> int:
        """Return a broker that is not the active controller."""
        active = self.active
        return next(node_id for node_id in self.running if node_id != active and "broker" in self.roles[node_id])

    def partition(self, node_id: int, topic: str, index: int = 0) -> Any:
        """Return a node's metadata of a partition."""
        found = self.raft(node_id).image.topic(topic)
        return None if found is None else found.partitions.get(index)

    # Client requests.

    def query(self, node_id: int, key: ApiKey, version: int, /, *, port: int = PORT, **fields: Any) -> Any:
        """Send a request to a node; return its response."""
        return self.wait(self._client.call((f"b{node_id}", port), key, version, **fields))

    def querying(self, node_id: int, key: ApiKey, version: int, /, *, port: int = PORT, **fields: Any) -> Any:
        """Send a request to a node; return a task for the response."""
        return self._fate.create_task(self._client.call((f"b{node_id}", port), key, version, **fields))

    def create(self, node_id: int, name: str, partitions: int = 1, replication_factor: int = -1) -> Any:
        """Create a topic through a node; return the response."""
        creating = self.requesting_to_create(node_id, name, partitions, replication_factor)
        [answer] = self.wait(creating).topics
        return answer

    def requesting_to_create(self, node_id: int, name: str, partitions: int = 1, replication_factor: int = -1) -> Any:
        """Create a topic through a node; return a task for the response."""
        topic = CreateTopicsRequest.Topic(
            name=name, num_partitions=partitions, replication_factor=replication_factor, assignments=[], configs=[]
        )
        return self.querying(node_id, ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout_ms=20_000)

    def produce(self, node_id: int, topic: str, value: bytes, index: int = 0) -> ErrorCode:
        """Produce one record with acks=all to a node; return the response."""
        requests: Any = request_class(ApiKey.PRODUCE)
        batch = build_batch([(None, value)], timestamp_ms=self.hosts[node_id].now_ms())
        partition = requests.Topic.Partition(index=index, records=batch)
        [answer] = self.query(
            node_id,
            ApiKey.PRODUCE,
            9,
            transactional_id=None,
            acks=-1,
            timeout_ms=20_000,
            topic_data=[requests.Topic(name=topic, partition_data=[partition])],
        ).responses
        return ErrorCode(answer.partition_responses[0].error_code)

    def values(self, node_id: int, topic: str, index: int = 0) -> list[bytes]:
        """Return the values of all records below the high watermark of a node's replica."""
        high_watermark = self.broker(node_id).replicas.partition(topic, index).high_watermark
        return [
            record.value or b""
            for data in self.segments(node_id, topic, index)
            for at, header in iter_batches(data)
            for record in iter_records(data[at : at + header.size_bytes])
            if record.offset < high_watermark
        ]

    def segments(self, node_id: int, topic: str, index: int = 0) -> list[bytes]:
        """Return the bytes of a replica's segments, in their order."""
        folder = f"{DATA_DIR}/{topic}-{index}/"
        files = dict(walk(self.hosts[node_id].disk.root))
        return [
            bytes(node.data)
            for path, node in sorted(files.items())
            if isinstance(node, FileNode) and folder in f"/{path}" and path.endswith(".log")
        ]
