"""The simulated machines, and the production brokers that run on them.

A `Host` is a machine with a disk and a clock; while it is up, it runs one process: the production `Broker` with its
server, on its own loop. `Host` does what `broker/__main__.py` does for a real broker. Only `cluster_settings` knows how
the brokers of a cluster find each other.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from broker.broker_server import BrokerServer
from broker.log_dirs.ownership import CannotStart
from broker.metadata.start_group import StartGroup
from broker.node import Node
from broker.replication.fetcher_state import NO_PROGRESS
from broker.settings import Option, Settings, check_settings
from protocol.errors import InvariantError
from simulation.disk import SimulatedDisk
from simulation.loop import Loop, Schedule
from simulation.violation import Invariant, Violation

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from controller.image import MetadataImage
    from simulation.network import Network

PORT = 9092
CONTROLLER_PORT = 9093
SECURED_PORT = 9094
DATA_DIR = "/data"
OTHER_DIR = "/other"
_VOTERS_OWN = ("__cluster_metadata-0", "meta.properties")
BEGIN_MS = 1_800_000_000_000


class World:
    """One simulated run: its seed, time, network and machines, and its findings."""

    def __init__(self, seed: int, schedule: Schedule, network: Network) -> None:
        self.seed = seed
        self.schedule = schedule
        self.network = network
        self.found: Exception | None = None
        self.hosts: list[Host] = []
        self.counts: dict[str, int] = {}
        """Event counters."""
        self.timeline: list[tuple[float, str]] = []
        """The faults so far: the time in s, and what was broken."""
        self.checked: Counter[Invariant] = Counter()
        """Number of calls of `check` by invariant."""
        self.always = False
        """Whether only synced records count (fsync=always)."""
        self.targets: dict[tuple[str, int], list[frozenset[int]]] = {}
        """The target replicas of each partition's last reassignment, and of requests that may still take effect."""
        self.power_cuts = 0
        self.clean_stops = 0
        self.newest: MetadataImage | None = None
        """The newest metadata that any broker has applied."""
        self.metadata_ends: dict[str, int] = {}
        """The metadata log end of each voter, by host name; for a dead voter, its last one."""
        self.stopping = False
        """Whether clients are to finish and no more faults start."""
        self.committed: dict[tuple[str, int], int] = {}
        """The largest high watermark that a partition ever had, by topic and index."""
        self._latest_ms = 0
        self._producer_ids: dict[int, str] = {}

    @property
    def clustered(self) -> bool:
        """Return whether there are several brokers, so that one can replicate what another loses."""
        return len(self.hosts) > 1

    @property
    def latest_ms(self) -> int:
        """Return the largest wall-clock time of any host so far."""
        self._latest_ms = max(self._latest_ms, *(host.now_ms() for host in self.hosts))
        return self._latest_ms

    @property
    def newest_offset(self) -> int:
        return -1 if self.newest is None else self.newest.offset

    def host_at(self, address: tuple[str, int]) -> Host:
        return next(host for host in self.hosts if host.name == address[0])

    def knows(self, address: tuple[str, int], offset: int) -> bool:
        """Return whether a broker has applied the metadata up to `offset`; always True for a single broker."""
        node = self.host_at(address).node
        return not self.clustered or (node is not None and node.shared.raft.applied_offset >= offset)

    def leader_epoch(self, address: tuple[str, int], topic: str, index: int) -> int:
        """Return the newest leader epoch of a partition if this broker leads it and knows that, else -1."""
        host, state = self.host_at(address), None if self.newest is None else self.newest.partition(topic, index)
        replica = host.broker.replicas.find_named(topic, index) if host.broker is not None else None
        if state is None or replica is None or state.leader != host.node_id:
            return -1
        return state.leader_epoch if replica.leader_epoch == state.leader_epoch else -1

    @staticmethod
    def random_of(seed: int, name: str) -> Random:
        """Return a random generator for one part; its use does not affect other parts."""
        return Random(f"{seed} {name}")

    def random(self, name: str) -> Random:
        return self.random_of(self.seed, name)

    def producer_id(self, producer_id: int, producer: str) -> None:
        """Record the producer id of a new producer; it must be unique."""
        known = self._producer_ids.setdefault(producer_id, producer)
        self.check(
            Invariant.PRODUCER_IDS_ARE_UNIQUE,
            known == producer,
            f"{producer} was given the producer id {producer_id} of {known}",
        )

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def report(self, found: Exception) -> None:
        """End the run with this finding, after the current event."""
        if self.found is None:
            self.found = found

    def check(self, invariant: Invariant, condition: object, problem: str) -> None:
        """Report and raise `Violation` of `invariant` unless `condition` holds."""
        self.checked[invariant] += 1
        if not condition:
            violation = Violation(invariant, problem)
            self.report(violation)
            raise violation


def cluster_settings(
    hosts: Sequence[str], node: int, chosen: Mapping[str, object], *, secured: bool = False
) -> Settings:
    """Return the settings of the `node`-th host of a cluster; `chosen` are the same for all.

    With `secured`, brokers have another listener of that name.
    """
    name, brokers = hosts[node], [host for host in hosts if not host.startswith("q")]
    properties: dict[str, object] = {
        "node.id": node + 1,
        "log.dirs": DATA_DIR,
        "listeners": f"PLAINTEXT://{name}:{PORT}",
        "offsets.topic.num.partitions": 3,
        "group.initial.rebalance.delay.ms": 200,
        "group.min.session.timeout.ms": 1000,
        **chosen,
    }
    if len(hosts) > 1:
        listeners = {"broker": f"PLAINTEXT://{name}:{PORT}", "controller": f"CONTROLLER://{name}:{CONTROLLER_PORT}"}
        apart = len(brokers) < len(hosts)
        roles = ("broker" if name in brokers else "controller",) if apart else tuple(listeners)
        properties["process.roles"] = ",".join(roles)
        properties["listeners"] = ",".join(listeners[role] for role in roles)
        properties["controller.listener.names"] = "CONTROLLER"
        if "broker" in roles:
            properties["inter.broker.listener.name"] = "PLAINTEXT"
        voting = [(number, host) for number, host in enumerate(hosts, 1) if not apart or host not in brokers]
        properties["controller.quorum.voters"] = ",".join(
            f"{number}@{host}:{CONTROLLER_PORT}" for number, host in voting
        )
    if secured and name in brokers:
        properties["listeners"] = f"{properties['listeners']},SECURED://{name}:{SECURED_PORT}"
    return check_settings({key: Option(str(value), key) for key, value in properties.items()})


class Host:
    """A machine that runs a broker."""

    def __init__(self, world: World, name: str, settings: Settings, cluster: list[Host]) -> None:
        self.world = world
        self.name = name
        self.settings = settings
        self.cluster = cluster
        """All hosts of this host's cluster, in the order of their node ids."""
        self.is_voter = not settings.voters or any(voter.node_id == settings.node_id for voter in settings.voters)
        self.disk = SimulatedDisk(world.random(f"{name} disk"), world.schedule.trace, world.network)
        self.clock_offset_ms = 0
        clock = world.random(f"{name} clock")
        self.clock = (clock.choice((0.0, 1000.0, 1e6)), clock.choice((1.0, 1.0, 1.0001, 0.95, 1.05)))
        """The monotonic clock: its value at time 0, and its rate."""
        self.loop: Loop | None = None
        self.node: Node | None = None
        self.start_group: StartGroup | None = None
        self.state: Literal["off", "starting", "up", "paused", "stopping", "failed"] = "off"
        self.starts = 0
        self.faulty = False
        """Whether a disk fault was injected since the process started, so that the process may fail too."""
        self.died_epoch = -1
        """The broker epoch of the last process that died."""
        self.lost = False
        """Whether it lost unsynced data, or everything, and has not been in sync with all partitions since."""
        self.before_power_cut: Callable[[Host], None] = lambda host: None
        world.hosts.append(self)
        world.network.resolve(name)

    def __repr__(self) -> str:
        return f"{self.name} ({self.state})"

    @property
    def node_id(self) -> int:
        return self.settings.node_id

    @property
    def broker(self) -> BrokerServer | None:
        return None if self.node is None else self.node.broker

    def now_ms(self) -> int:
        return BEGIN_MS + int(self.world.schedule.now * self.clock[1] * 1000) + self.clock_offset_ms

    # Starts, crashes and stops

    def start(self) -> None:
        """Start a process."""
        world = self.world
        if self.disk.sync_failed and not world.clustered:
            self._reboot()
        world.network.power_on(self.name)
        self.starts += 1
        self.faulty = False
        self.loop = self.disk.process = loop = world.schedule.loop(self.name)
        threads = world.random(f"{self.name} threads {self.starts}")
        loop.threads_s = threads.choice(((1e-5, 1e-4), (1e-4, 5e-3)))
        loop.stepped_share = threads.choice((0.0, 0.2))
        loop.origin_s, loop.rate = self.clock
        loop.disk_waits_s = self.disk.pop_sync_waits_s
        loop.on_exception = self._failed
        random = world.random(f"{self.name} broker {self.starts}")
        self.node = None
        self.state = "starting"
        loop.create_task(self._serve(loop, random))

    async def _serve(self, loop: Loop, random: Random) -> None:
        try:
            self.node = node = Node(
                self.settings, self.disk, loop, now_ms=self.now_ms, random=random, start_group=self.start_group
            )
            await node.open()
            await node.join()
        except (CannotStart, InvariantError) as error:
            if not self.faulty:
                self.world.report(Violation(Invariant.STARTS, f"{self.name} cannot start: {error}"))
            self.crash()
            self.state = "failed"
        except Exception as error:
            self.world.report(error)
        else:
            self.state = "up"

    def crash(self, *, power: bool = False, clean: bool = False) -> None:
        """End the process at once; with `power`, end the machine too and lose unsynced data."""
        if self.loop is None or self.state in ("off", "failed"):
            return
        if power:
            self.before_power_cut(self)
            self.lost = True
        self.world.clean_stops += clean
        if not clean:
            known = self.world.newest.brokers.get(self.node_id) if self.world.newest is not None else None
            self.died_epoch = -1 if known is None else known.epoch
        self.loop.die()
        self.world.network.process_died(self.loop, power=power)
        if power:
            self.disk.power_cut()
        self.state = "off"
        if self.node is not None:
            for directory in self.node.shared.logs.directories:
                if directory.failure is not None:
                    self._drop_former_logs(directory.path)

    def _reboot(self) -> None:
        """Reboot the machine before the broker starts, as docs/OPERATIONS.md requires after a failed sync.

        A lone broker that reads the page cache would acknowledge records that are not on the platter.
        """
        self.before_power_cut(self)
        self.lost = True
        self.disk.power_cut()

    @property
    def directories(self) -> list[str]:
        return list(self.settings.log_dirs)

    def wipe(self, directories: Sequence[str] = ()) -> None:
        """Empty data directories (by default all) while no process runs.

        A voter keeps its vote and its identity.
        """
        self.lost = True
        for directory in directories or self.directories:
            self.disk.wipe(directory, _VOTERS_OWN if self.is_voter and directory == DATA_DIR else ())

    def _drop_former_logs(self, failed: str) -> None:
        """Delete from a failed directory the logs of partitions that were created again in another directory.

        A broker does not start with both (docs/SKIPPED.md); an administrator deletes the older one.
        """
        self.disk.drop(failed, (other for other in self.directories if other != failed))

    def pause(self) -> None:
        if self.loop is not None and self.state == "up":
            self.loop.pause()
            self.state = "paused"

    def resume(self) -> None:
        if self.loop is not None and self.state == "paused":
            self.state = "up"
            self.loop.resume()

    def stop(self) -> None:
        """Start a clean shutdown, as SIGTERM does."""
        if self.loop is not None and self.node is not None and self.state == "up":
            self.state = "stopping"
            self.loop.create_task(self._stop(self.loop, self.node))

    async def _stop(self, loop: Loop, node: Node) -> None:
        clean = await node.stop()
        if not (clean or self.faulty):
            self.world.report(Violation(Invariant.STOPS_IN_ORDER, f"{self.name} did not stop cleanly"))
        left = [task for task in loop.tasks if not (task.cancelling() or _is_hosts(task))]
        if left:
            self.world.report(Violation(Invariant.STOPS_IN_ORDER, f"{self.name} has stopped, and left {left}"))
        self.crash(clean=clean)

    def _failed(self, context: dict[str, Any]) -> None:
        """End the process as its program does if a disk fault may be the cause; anything else is a finding."""
        error = context.get("exception")
        if self.faulty and isinstance(error, InvariantError):
            self.crash()
            self.state = "failed"
            return
        violation = Violation(Invariant.NO_TRACEBACK, f"{self.name}: {context.get('message')}: {error!r}")
        violation.__cause__ = error if isinstance(error, BaseException) else None
        self.world.report(violation)


class Tracebacks(logging.Handler):
    """Find unexpected problems in the brokers' logs: tracebacks, and fetchers without progress."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            violation = Violation(
                Invariant.NO_TRACEBACK, f"a traceback in the log: {record.getMessage()}: {record.exc_info[1]!r}"
            )
            violation.__cause__ = record.exc_info[1]
            self.world.report(violation)
        elif NO_PROGRESS in record.getMessage():
            self.world.report(
                Violation(Invariant.NO_BUSY_LOOP, f"a busy loop between two brokers: {record.getMessage()}")
            )


@contextmanager
def logs_watched(world: World) -> Iterator[None]:
    """Report tracebacks and fetchers without progress from the brokers' logs; print no log line."""
    logger = logging.getLogger("broker")
    handler, propagates = Tracebacks(world), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates


def _is_hosts(task: asyncio.Task[Any]) -> bool:
    result: bool = task.get_coro().__qualname__.startswith("Host.")  # type: ignore[union-attr]
    return result
