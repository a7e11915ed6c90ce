"""Three brokers as processes, connected only through a network that can be broken.

Each is broker and controller, and has three listeners: for clients, for the other brokers, for the other controllers.
All connections pass gates; only the observer (`describe`) bypasses them. Each node has two data directories. Both may
be wiped, except the metadata log in one of them: a voter of a static quorum must not lose that.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from protocol.api import ApiKey
from protocol.messages.describe_quorum import DescribeQuorumRequest
from tests.broker_process import COMMAND, READY, free_address
from tests.chaos.security import Security
from tests.raw_client import RawClient

IDS = (1, 2, 3)
CLIENTS, INTERNAL, CONTROLLER = LISTENERS = ("CLIENTS", "INTERNAL", "CONTROLLER")
OF_THE_VOTER = {"__cluster_metadata-0", "meta.properties"}
SESSION_MS = 2000
STATE_PARTITIONS = 3
SETTINGS = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": STATE_PARTITIONS,
    "transaction.state.log.num.partitions": STATE_PARTITIONS,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    # Short, so that several pauses longer than a session, and lagging followers, fit into a run.
    "broker.session.timeout.ms": SESSION_MS,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 2000,
    # Otherwise one broker would come to lead everything.
    "leader.imbalance.check.interval.seconds": 5,
}
_UNENCRYPTED = {"listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in LISTENERS)}
DEADLINE_S = 60.0
LOOK_AGAIN_S = 0.05


class Gates(Protocol):
    """The gates before the brokers' listeners."""

    def gate(self, node: int, address: tuple[str, int]) -> int:
        """Return the port of 127.0.0.1 through which an address of a node is reached."""
        ...


class NoGates:
    """Listeners that are reached directly."""

    def gate(self, _: int, address: tuple[str, int]) -> int:
        return address[1]


class ClusterError(AssertionError):
    """The cluster did not reach a required state in time."""


def wait_until(condition: Callable[[], object], what: Callable[[], str] | str, timeout_s: float = DEADLINE_S) -> None:
    """Return once the condition holds; raise ClusterError after the timeout."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"not within {timeout_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(LOOK_AGAIN_S)


class PartitionState(NamedTuple):
    """A partition's state in the metadata of the active controller."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Description(NamedTuple):
    """The state of a cluster at one moment."""

    controller: int
    partitions: dict[str, PartitionState]

    def is_out_of_sync(self, node: int) -> bool:
        """Return whether a broker is in no ISR."""
        return all(node not in state.in_sync for state in self.partitions.values())

    @property
    def is_whole(self) -> bool:
        """Return whether every partition has a leader and all its replicas in the ISR."""
        return all(
            state.leader in state.replicas and sorted(state.in_sync) == sorted(state.replicas)
            for state in self.partitions.values()
        )


def port_of(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


class Node:
    """One broker, running or not."""

    def __init__(self, node_id: int, directory: Path) -> None:
        self.id = node_id
        self.addresses = {name: free_address() for name in LISTENERS}
        self.log = directory / "broker.log"
        self._printed = directory / "printed"
        self.records = directory / "records"
        self.metadata = directory / "metadata"
        self.command: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.is_paused = False
        directory.mkdir(parents=True)

    def configure(
        self, settings: Mapping[str, object], voters: str, gates: Mapping[str, int], options: Sequence[str] = ()
    ) -> None:
        """Set the settings that all nodes share, and the advertised addresses of this one."""
        own = {
            "node.id": self.id,
            "controller.quorum.voters": voters,
            "listeners": ",".join(f"{name}://{address}" for name, address in self.addresses.items()),
            "advertised.listeners": ",".join(f"{name}://127.0.0.1:{gates[name]}" for name in (CLIENTS, INTERNAL)),
            "inter.broker.listener.name": INTERNAL,
            "controller.listener.names": CONTROLLER,
            "log.dirs": f"{self.metadata},{self.records}",
            "metadata.log.dir": self.metadata,
        }
        self.command = [
            *COMMAND,
            "serve",
            "--exit-with-parent",
            *options,
            *(f"-D{name}={value}" for name, value in {**_UNENCRYPTED, **settings, **own}.items()),
        ]

    def start(self) -> None:
        with open(self.log, "ab") as log, open(self._printed, "wb") as printed:
            # Its standard input ends when this process ends, however that happens, and then the broker ends too.
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=printed, stderr=log)

    @property
    def is_ready(self) -> bool:
        """Return whether the broker has logged that it is ready since its start."""
        return self.process is not None and any(
            line.startswith(READY) for line in self._printed.read_text().splitlines()
        )

    def kill(self) -> None:
        """Kill a running process with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.process, self.is_paused = None, False

    def stop(self, timeout_s: float = DEADLINE_S) -> int:
        """Start a clean shutdown of the broker, and return its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired as late:
            raise ClusterError(f"broker {self.id} has not stopped within {timeout_s:g} s of SIGTERM") from late
        finally:
            self.kill()

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.is_paused = False

    def wipe(self) -> None:
        """Empty the disk of a stopped broker."""
        shutil.rmtree(self.records)
        for path in self.metadata.iterdir():
            if path.name not in OF_THE_VOTER:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def complaints(self) -> list[str]:
        """Return the log lines that no fault may cause, and the exit status if the broker ended by itself."""
        text = self.log.read_text()
        found = [word for word in ("Traceback", "ERROR asyncio") if word in text]
        ended = None if self.process is None else self.process.poll()
        return found if ended is None else [*found, f"exit status {ended}"]


class Cluster:
    """Three nodes behind gates."""

    def __init__(
        self,
        directory: Path,
        network: Gates,
        settings: Mapping[str, object] = SETTINGS,
        security: Security | None = None,
    ) -> None:
        """Configure the nodes; with `security`, all their listeners are secured."""
        self._security = security
        if security is not None:
            settings = {**settings, **security.settings}
        options = () if security is None else security.options
        self.nodes = {node_id: Node(node_id, directory / f"broker-{node_id}") for node_id in IDS}
        gates = {
            node.id: {name: network.gate(node.id, port_of(address)) for name, address in node.addresses.items()}
            for node in self.nodes.values()
        }
        voters = ",".join(f"{node_id}@127.0.0.1:{gates[node_id][CONTROLLER]}" for node_id in IDS)
        for node in self.nodes.values():
            node.configure(settings, voters, gates[node.id], options)
        self.bootstrap = ",".join(f"127.0.0.1:{gates[node_id][CLIENTS]}" for node_id in IDS)

    @property
    def client_settings(self) -> dict[str, str]:
        """The settings of a librdkafka client of the cluster."""
        return {"bootstrap.servers": self.bootstrap} | dict({} if self._security is None else self._security.of_clients)

    @property
    def processes(self) -> dict[int, int]:
        """The node of each running process."""
        return {node.process.pid: node.id for node in self.nodes.values() if node.process is not None}

    def __enter__(self) -> Cluster:
        for node in self.nodes.values():
            node.start()
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.kill()

    def describe(self) -> Description | None:
        """Return the state in the active controller's metadata, or None if no node returns the active controller."""
        for node in self.nodes.values():
            if node.process is None or node.is_paused:
                continue
            try:
                controller = self._controller(node)
                requested = self.nodes.get(controller)
                if requested is not None and requested.process is not None and not requested.is_paused:
                    return Description(controller, self._partitions(requested))
            except OSError:
                pass
        return None

    def wait_for(self, condition: Callable[[Description], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
        """Return once the condition holds for the cluster; raise ClusterError after the timeout."""
        last: Description | None = None

        def holds() -> bool:
            nonlocal last
            last = self.describe()
            return last is not None and condition(last)

        wait_until(holds, lambda: f"{what}; {last}", timeout_s)

    def wait_until_whole(self, timeout_s: float = DEADLINE_S) -> None:
        """Return once every broker serves, and every partition has a leader and all replicas in the ISR."""

        def is_whole(found: Description) -> bool:
            return found.is_whole and all(node.is_ready for node in self.nodes.values())

        self.wait_for(is_whole, "every replica of every partition in sync", timeout_s)

    def _connect(self, node: Node) -> RawClient:
        address = node.addresses[CLIENTS]
        return RawClient(address, 2) if self._security is None else self._security.connect(address, 2)

    def _controller(self, node: Node) -> int:
        topic = DescribeQuorumRequest.Topic
        requested = [topic(topic_name="__cluster_metadata", partitions=[topic.Partition(partition_index=0)])]
        client = self._connect(node)
        try:
            answer = client.call(ApiKey.DESCRIBE_QUORUM, 1, topics=requested)
        finally:
            client.close()
        found: list[int] = [partition.leader_id for topic in answer.topics for partition in topic.partitions]
        return found[0] if found else -1

    def _partitions(self, node: Node) -> dict[str, PartitionState]:
        client = self._connect(node)
        try:
            answer = client.call(ApiKey.METADATA, 12, topics=None)
        finally:
            client.close()
        return {
            f"{topic.name}-{partition.partition_index}": PartitionState(
                partition.leader_id, tuple(partition.replica_nodes), tuple(partition.isr_nodes)
            )
            for topic in answer.topics
            for partition in topic.partitions
        }
