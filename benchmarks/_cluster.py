"""A cluster of three combined brokers and controllers, of Barnabas or Apache Kafka."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._loopback import Client, Server
from benchmarks.start import KAFKA_JAVA, TIMEOUT_S, free_port, resident_mb, started
from protocol.api import ApiKey, request_class

NODES = (1, 2, 3)
IN_SYNC = {"default.replication.factor": "3", "min.insync.replicas": "2"}
BARNABAS, KAFKA = "Barnabas", "Apache Kafka"

_CLUSTER_ID = "WV5yoIVIQ7q2wIB0pOwZQg"
_METADATA_VERSION = 12
_POLL_S = 0.01
_PARTITIONS_POLL_S = 0.05  # a response may list thousands of partitions
_IN_SYNC_POLL_S = 0.05


class Ports(NamedTuple):
    """A node's listen ports, and the ports that others connect to: different if a proxy is in between."""

    broker: int
    controller: int
    reached_broker: int
    reached_controller: int


Gate = Callable[[int, tuple[str, int]], int]
"""Opens a proxy in front of a node's address and returns its port."""


Command = Callable[[Path, int, Mapping[int, Ports]], Sequence[str]]
"""Prepares the data directory, outside the measurement, and returns the node's command line."""


def _settings(node: int, ports: Mapping[int, Ports]) -> Mapping[str, str]:
    own = ports[node]
    return {
        "node.id": str(node),
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://127.0.0.1:{own.broker},CONTROLLER://127.0.0.1:{own.controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{own.reached_broker}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{one}@127.0.0.1:{at.reached_controller}" for one, at in ports.items()),
        **IN_SYNC,
    }


def barnabas(directory: Path, node: int, ports: Mapping[int, Ports]) -> Sequence[str]:
    """Return the command that starts one Barnabas broker."""
    options = [f"-D{name}={value}" for name, value in _settings(node, ports).items()]
    return (sys.executable, "-m", "broker", "--data-dir", str(directory / "data"), *options)


def apache_kafka(directory: Path, node: int, ports: Mapping[int, Ports]) -> Sequence[str]:
    """Format a data directory, and return the command that starts one Apache Kafka broker."""
    from tests.oracles.apache_kafka import kafka_classpath

    properties = directory / "server.properties"
    settings = {**_settings(node, ports), "log.dirs": str(directory / "data"), "offsets.topic.replication.factor": "3"}
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java = (*KAFKA_JAVA, "-cp", kafka_classpath())
    formatting = (*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(properties))
    subprocess.run(formatting, check=True, capture_output=True)
    return (*java, "kafka.Kafka", str(properties))


CLUSTERS: Mapping[str, Command] = {BARNABAS: barnabas, KAFKA: apache_kafka}


class Cluster:
    """Three processes, by node; each can be stopped, killed and restarted."""

    def __init__(
        self, lines: Mapping[int, Sequence[str]], ports: Mapping[int, Ports], stack: contextlib.ExitStack
    ) -> None:
        self._lines = lines
        self._ports = ports
        self._stack = stack
        self.nodes: dict[int, Server] = {}
        begun = time.perf_counter()
        for node in lines:
            self.start(node)
        for server in self.nodes.values():
            wait_until(lambda at=server: len(metadata(at).brokers) == len(NODES), f"all brokers known to {server.port}")  # type: ignore[misc]  # a lambda with a default has no inferred type
        self.ready_s = time.perf_counter() - begun
        """Seconds from the start of the processes until each node lists all three."""

    def start(self, node: int) -> None:
        """Start a node that is not running."""
        process = self._stack.enter_context(started(self._lines[node]))
        self._stack.callback(process.kill)  # the last nodes' controlled shutdown would wait long for a quorum
        self.nodes[node] = Server(process, self._ports[node].broker)

    def stop(self, node: int) -> None:
        """Stop a node cleanly."""
        self.nodes[node].process.terminate()
        self.nodes[node].process.wait(TIMEOUT_S)

    def kill(self, node: int) -> None:
        """Kill a node with SIGKILL."""
        self.nodes[node].process.kill()
        self.nodes[node].process.wait(TIMEOUT_S)

    def wait_until_in_sync(self, topic: str) -> None:
        """Return once every broker lists all replicas of a topic as in sync."""

        def in_sync(server: Server) -> bool:
            partitions = metadata(server, [topic]).topics[0].partitions
            return bool(partitions) and all(len(one.isr_nodes) == len(NODES) for one in partitions)

        for server in self.nodes.values():
            wait_until(
                lambda at=server: in_sync(at),  # type: ignore[misc]  # a lambda with a default has no inferred type
                f"{topic} in sync, as {server.port} knows",
                poll_s=_IN_SYNC_POLL_S,
            )

    @property
    def controller(self) -> int:
        """Return the node that is the active controller."""
        request: Any = request_class(ApiKey.DESCRIBE_QUORUM)
        partition = request.Topic.Partition(partition_index=0)
        target = request(topics=[request.Topic(topic_name="__cluster_metadata", partitions=[partition])])
        client = Client(self.nodes[1].port)
        leader: int = client.call(ApiKey.DESCRIBE_QUORUM, 1, target).topics[0].partitions[0].leader_id
        client.close()
        return leader

    @property
    def bootstrap(self) -> str:
        """Return the bootstrap address for clients."""
        return ",".join(server.bootstrap for server in self.nodes.values())

    @property
    def resident_mb(self) -> float:
        """Return the resident memory of all three nodes, in MiB."""
        return sum(resident_mb(server.process.pid) for server in self.nodes.values())

    def cpu(self) -> list[tuple[float, float]]:
        """Return each node's CPU seconds so far, user and system."""
        return [server.cpu() for server in self.nodes.values()]


@contextlib.contextmanager
def running(command: Command, gate: Gate | None = None, directory: str | None = None) -> Iterator[Cluster]:
    """Run a cluster for the duration of the block, with its data below `directory` (default: temporary files).

    Each node is reached through `gate`, if given.
    """
    with tempfile.TemporaryDirectory(dir=directory) as folder, contextlib.ExitStack() as stack:
        ports = {node: _ports(node, gate) for node in NODES}
        lines = {}
        for node in NODES:
            own = Path(folder) / str(node)
            own.mkdir()
            lines[node] = command(own, node, ports)
        yield Cluster(lines, ports, stack)


def _ports(node: int, gate: Gate | None) -> Ports:
    own = free_port(), free_port()
    return Ports(*own, *(own if gate is None else (gate(node, ("127.0.0.1", port)) for port in own)))


def metadata(server: Server, topics: Sequence[str] = ()) -> Any:
    """Return a broker's Metadata response, with the given topics."""
    request: Any = request_class(ApiKey.METADATA)
    wanted = [request.Topic(name=name) for name in topics]
    client = Client(server.port)
    try:
        return client.call(ApiKey.METADATA, _METADATA_VERSION, request(topics=wanted))
    finally:
        client.close()


def _logs(server: Server, topics: Sequence[str]) -> int:
    """Return the number of logs of these topics on a broker."""
    client = Client(server.port)
    try:
        answer = client.call(ApiKey.DESCRIBE_LOG_DIRS, 4, request_class(ApiKey.DESCRIBE_LOG_DIRS)(topics=None))
    finally:
        client.close()
    return sum(len(topic.partitions) for one in answer.results for topic in one.topics if topic.name in topics)


def wait_until(holds: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S, poll_s: float = _POLL_S) -> None:
    """Return once the condition holds; a broker that does not respond counts as False."""
    deadline = time.perf_counter() + timeout_s
    while time.perf_counter() < deadline:
        with contextlib.suppress(OSError, EOFError, ValueError):
            if holds():
                return
        time.sleep(poll_s)
    raise RuntimeError(f"not within {timeout_s:g} s: {what}")


def create_topics(cluster: Cluster, names: Sequence[str], partitions: int, replicas: Sequence[int] = ()) -> float:
    """Create topics with three replicas in one request; return the seconds until every broker has created its logs.

    By then every broker has all partitions with leaders and full ISRs. `replicas` places all partitions on these
    brokers, with the first as leader; the default spreads them.
    """
    requests: Any = request_class(ApiKey.CREATE_TOPICS)
    assigned = requests.Topic.Assignment
    topics = [
        requests.Topic(
            name=name,
            num_partitions=-1 if replicas else partitions,
            replication_factor=-1 if replicas else len(NODES),
            assignments=[
                assigned(partition_index=index, broker_ids=list(replicas)) for index in range(partitions) if replicas
            ],
            configs=[],
        )
        for name in names
    ]
    client = Client(next(iter(cluster.nodes.values())).port)
    begun = time.perf_counter()
    answer = client.call(ApiKey.CREATE_TOPICS, 7, requests(topics=topics, timeout_ms=60_000))
    client.close()
    failed = [one.error_message for one in answer.topics if one.error_code]
    if failed:
        raise RuntimeError(f"{len(failed)} topics were not created: {failed[0]}")

    count = partitions * len(names)

    def complete(server: Server) -> bool:
        found = [one for topic in metadata(server, names).topics for one in topic.partitions]
        known = len(found) == count and all(one.leader_id > 0 and len(one.isr_nodes) == len(NODES) for one in found)
        return known and _logs(server, names) == count

    for server in cluster.nodes.values():
        wait_until(
            lambda at=server: complete(at),  # type: ignore[misc]  # a lambda with a default has no inferred type
            f"{len(names)} topics known to {server.port}",
            poll_s=_PARTITIONS_POLL_S,
        )
    return time.perf_counter() - begun
