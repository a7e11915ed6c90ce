"""Faults: one after the other, chosen by the seed; each ends some time later."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from controller.partition_change import elr_enabled
from simulation.cluster import Host, World
from simulation.violation import Invariant

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from controller.image import PartitionImage

_LARGEST_JUMP_MS = 20 * 60 * 1000

# How often each fault is chosen, relative to the others; the names are those of the methods of `Faults`.
WEIGHTS = {
    "kill": 4,
    "cut_power": 4,
    "stop": 1,
    "pause": 2,
    "jump": 2,
    "fail_disk": 2,
    "fill_disk": 2,
    "cut_between_operations": 3,
    "kill_between_operations": 1,
    "slow_syncs": 2,
    "partition": 4,
    "reset": 4,
    "slow": 2,
}
# In clusters, in addition.
CLUSTER_WEIGHTS = {
    "wipe": 2,
    "fail_directory": 3,
    "isolate": 3,
    "slow_down": 2,
    "cut_power_amid_writes": 4,
    "restart_partitioned": 6,
    "kill_others": 2,
}

Fault: TypeAlias = Callable[[Host], Coroutine[Any, Any, None]]


class Faults:
    """Break hosts, disks, clocks and links."""

    def __init__(
        self, world: World, clients: Sequence[str], usual_pause_s: float, chosen: Collection[str] | None = None
    ) -> None:
        """Choose from the faults whose names are in `chosen`, by default from all that fit the hosts."""
        self._world = world
        self._clients = clients
        self._pause_s = usual_pause_s
        self._random = world.random("faults")
        weights = dict(WEIGHTS)
        if world.clustered:
            weights |= CLUSTER_WEIGHTS
            if len(world.hosts[0].directories) == 1:
                del weights["fail_directory"]
        if chosen is not None:
            weights = {name: weight for name, weight in weights.items() if name in chosen}
        self._weights = list(weights.values())
        self._kinds: list[Fault] = [getattr(self, f"_{name}") for name in weights]
        self._harmless = (self._jump, self._reset, self._slow, self._slow_syncs)
        self._struck: set[str] = set()

    async def run(self) -> None:
        """Inject faults until clients are to finish; in a cluster, on up to two hosts at a time."""
        await asyncio.gather(*(self._strike() for _ in range(1 + self._world.clustered)))

    async def _strike(self) -> None:
        while not self._world.stopping:
            await asyncio.sleep(self._random.expovariate(1 / self._pause_s))
            whole = [host for host in self._world.hosts if host.name not in self._struck]
            if not whole:
                continue
            host = self._random.choice(whole)
            [kind] = self._random.choices(self._kinds, self._weights)
            name = kind.__name__.strip("_").replace("_", " ")
            self._world.count(f"fault: {name}")
            self._struck.add(host.name)
            if kind in self._harmless or self._may_crash(host):
                self._world.timeline.append((self._world.schedule.now, f"{name} {host.name}"))
                await kind(host)
            if host.state in ("off", "failed"):
                await self._while_s(self._random.choice((0.05, 0.3, 3.0)) if self._world.clustered else 0.3)
                self._revive(host)
            self._struck.remove(host.name)

    def _may_crash(self, host: Host, *, lose: bool = False, spared: Host | None = None) -> bool:
        """Return whether a process may die, and `lose` its unsynced data, without breaking any promise to a client.

        The state of a dead process is unknown. If a broker has lost data and is not in sync again, each partition needs
        a replica in sync that stays alive and reachable; if no broker has, all may die. A broker that shuts down, is
        paused or cut off counts as dead, because the others may fence it; a `spared` one does not.
        """
        image, cluster = self._world.newest, [other for other in host.cluster if other.settings.is_broker]
        if not self._world.clustered or host not in cluster:
            return True
        if image is None or (lose and not elr_enabled(image)):
            return False  # the last replica that was in sync leads again, whatever it has lost
        epochs = {broker.broker_id: broker.epoch for broker in image.brokers.values()}
        died = {other.node_id for other in cluster if other.died_epoch == epochs.get(other.node_id)}
        struck = self._struck - {spared.name if spared is not None else ""}
        died |= {other.node_id for other in cluster if other is host or other.name in struck}
        states = [(topic.name, state) for topic in image.topics() for state in topic.partitions.values()]
        for other in cluster:
            replicas = (state for _, state in states if other.node_id in state.replicas)
            if other.node_id not in died and all(other.node_id in state.isr for state in replicas):
                other.lost = False
        if not lose and not any(other.lost for other in cluster):
            return True
        # Uncommitted records of a metadata log may, once committed, fence a broker that this check counts on.
        uncommitted = lose and any(end > image.offset + 1 for end in self._world.metadata_ends.values())
        return all(len(self._stay(name, state) - died) > uncommitted for name, state in states)

    def _stay(self, topic: str, state: PartitionImage) -> set[int]:
        """Return the replicas that have everything promised and are not being reassigned away."""
        stay = {*state.isr, *state.eligible_leader_replicas}
        return stay.intersection(*self._world.targets.get((topic, state.partition), ()))

    async def heal(self) -> None:
        """End all faults, and wait for the brokers."""
        self._world.network.heal()
        for host in self._world.hosts:
            host.disk.mend()
            host.resume()
        while not all(host.state == "up" and not host.faulty for host in self._world.hosts):
            for host in self._world.hosts:
                if host.faulty and self._may_crash(host):
                    host.crash()
                self._revive(host)
            await asyncio.sleep(0.1)

    def _revive(self, host: Host) -> None:
        if host.state in ("off", "failed"):
            if host.state == "failed":
                host.disk.mend()
            host.start()

    async def _while_s(self, usual_s: float) -> None:
        await asyncio.sleep(self._random.expovariate(1 / usual_s))

    async def _kill(self, host: Host) -> None:
        host.crash()

    async def _cut_power(self, host: Host) -> None:
        host.crash(power=self._may_crash(host, lose=True))

    async def _wipe(self, host: Host) -> None:
        host.crash()
        if self._may_crash(host, lose=True):
            host.wipe(self._random.choice(((), (), host.directories[-1:])))
            self._world.count("wiped disks")

    async def _cut_power_amid_writes(self, host: Host) -> None:
        """Cut the power right after one of the next few writes and syncs, for example of a vote."""
        starts, written = host.starts, asyncio.get_running_loop().create_future()
        host.disk.notify_after(self._random.choice((1, 2, 4, 8, 30)), written)
        await asyncio.wait([written], timeout=1.0)
        if host.starts == starts and self._may_crash(host):
            await self._cut_power(host)

    async def _cut_between_operations(self, host: Host) -> None:
        """Cut the power between two disk operations of one callback, or of one call in a thread."""
        await self._crash_between_operations(host, power=self._may_crash(host, lose=True))

    async def _kill_between_operations(self, host: Host) -> None:
        await self._crash_between_operations(host, power=False)

    async def _crash_between_operations(self, host: Host, *, power: bool) -> None:
        starts, crashed = host.starts, asyncio.get_running_loop().create_future()

        def crash() -> None:
            if host.starts == starts and host.state in ("up", "starting") and self._may_crash(host, lose=power):
                self._world.count("crashes between two operations")
                host.crash(power=power)
            if not crashed.done():
                crashed.set_result(None)

        host.disk.interrupt(self._random.choice((0, 1, 2, 3, 5, 8, 13, 40)), crash)
        await asyncio.wait([crashed], timeout=1.0)
        host.disk.interrupt(0, lambda: None)

    async def _slow_syncs(self, host: Host) -> None:
        """Make each sync slow, as on a disk that is about to fail."""
        host.disk.slow_sync_s = self._random.choice((0.02, 0.5, 2.0))
        await self._while_s(1.0)
        host.disk.slow_sync_s = 0.0

    async def _fail_directory(self, host: Host) -> None:
        """Fail every call in one of several data directories, and replace it by an empty one for the next start.

        The broker continues with the others (KIP-112).
        """
        if host.state != "up" or not self._may_crash(host, lose=True):
            return
        host.faulty = True
        starts = host.starts
        host.disk.broken = self._random.choice(host.directories[1:])
        await self._while_s(2.0)
        if host.starts == starts and host.broker is not None and host.broker.logs.directories[1].failure is not None:
            self._world.count("failed directories")
            self._world.check(
                Invariant.OTHER_DIRECTORIES_SERVE,
                host.state in ("up", "paused"),
                f"{host.name} has ended because {host.disk.broken} failed",
            )
            self._other_directories_serve(host, host.broker, host.disk.broken)
        replaced, host.disk.broken = host.disk.broken, ""
        host.crash()
        for _ in range(50):
            if self._may_crash(host, lose=True):
                host.wipe((replaced,))
                return
            await asyncio.sleep(0.1)

    def _other_directories_serve(self, host: Host, broker: BrokerServer, failed: str) -> None:
        """Check that the replicas in the other directories are online, and lead where the metadata says so."""
        for partition in broker.replicas.partitions:
            if broker.logs.directory_of(partition.log).path == failed:
                continue
            newest = self._world.newest
            state = None if newest is None else newest.partition(partition.topic, partition.index)
            leads = state is not None and (state.leader, state.leader_epoch) == (host.node_id, partition.leader_epoch)
            self._world.check(
                Invariant.OTHER_DIRECTORIES_SERVE,
                not partition.log.offline and not partition.unavailable and partition.is_leader >= leads,
                f"{host.name} does not serve {partition}, which is not in {failed}",
            )

    async def _restart_partitioned(self, host: Host) -> None:
        """Crash, and restart without a connection to one of the other hosts for a while."""
        await self._random.choice((self._kill, self._cut_power, self._cut_power, self._wipe))(host)
        await self._while_s(0.1)
        network, other = self._world.network, self._random.choice([one for one in host.cluster if one is not host])
        links = network.link(other.name, host.name), network.link(host.name, other.name)
        for link in links:
            link.up = False
        self._revive(host)
        await self._while_s(self._random.choice((0.5, 3.0)))
        for link in links:
            link.up = True

    async def _kill_others(self, host: Host) -> None:
        """Kill the other brokers one after the other for a while."""
        gone = []
        for other in host.cluster:
            if other.settings.is_broker and other.name not in self._struck and self._may_crash(other, spared=host):
                self._struck.add(other.name)
                other.crash()
                gone.append(other)
                await self._while_s(0.3)
        await self._while_s(2.0)
        for other in gone:
            self._revive(other)
            self._struck.remove(other.name)

    async def _stop(self, host: Host) -> None:
        host.stop()
        while host.state == "stopping":
            await asyncio.sleep(0.1)

    async def _pause(self, host: Host) -> None:
        host.pause()
        await self._while_s(1.0)
        host.resume()

    async def _jump(self, host: Host) -> None:
        _ = self._world.latest_ms  # its time at this moment counts from now on
        host.clock_offset_ms = self._random.randint(-_LARGEST_JUMP_MS, _LARGEST_JUMP_MS)

    async def _fail_disk(self, host: Host) -> None:
        """Fail one call; the process gives up after one failure, and the disk works again for the next process."""
        kind = self._random.choice(("pwrite", "sync", "sync_dir", "pread", "rename", "create", "truncate"))
        host.faulty = True
        host.disk.fail(kind, errno.EIO, after=self._random.choice((0, 0, 3, 20)))
        await self._while_s(1.0)
        host.disk.mend()
        host.resume()
        host.crash(power=self._random.random() < 0.3 and self._may_crash(host, lose=True))

    async def _fill_disk(self, host: Host) -> None:
        host.faulty = True
        host.disk.full = True
        await self._while_s(0.5)
        host.disk.full = False

    async def _partition(self, host: Host) -> None:
        """Cut one or both directions between a host and some of its connected hosts."""
        network, random = self._world.network, self._random
        others = [*self._clients, *(other.name for other in host.cluster if other is not host)]
        links = []
        for other in random.sample(others, random.randint(1, len(others))):
            pair = [network.link(other, host.name), network.link(host.name, other)]
            links += random.choice((pair, pair[:1], pair[1:]))
        for link in links:
            link.up = False
        await self._while_s(random.choice((0.3, 2.0)))
        for link in links:
            link.up = True

    async def _isolate(self, host: Host) -> None:
        """Cut a host off from one or all others of its cluster, in one or both directions; not from clients."""
        network, others = self._world.network, [other.name for other in host.cluster if other is not host]
        if self._random.random() < 0.5:
            others = [self._random.choice(others)]
        contacted, reported = self._random.choice(((False, False), (False, True), (True, False)))
        for other in others:
            network.link(other, host.name).up = contacted
            network.link(host.name, other).up = reported
        await self._while_s(self._random.choice((0.5, 4.0)))
        for other in others:
            network.link(other, host.name).up = network.link(host.name, other).up = True

    async def _reset(self, host: Host) -> None:
        network = self._world.network
        for transport in list(network.transports.values()):
            if transport.loop is host.loop and self._random.random() < 0.5:
                network.reset(transport)

    async def _slow_down(self, host: Host) -> None:
        """Make a broker read slowly, so that it lags behind."""
        self._world.network.slow[host.name] = (self._random.choice((500, 4000)), 0.02)
        await self._while_s(1.0)
        self._world.network.slow.pop(host.name, None)

    async def _slow(self, host: Host) -> None:
        network, client = self._world.network, self._random.choice(self._clients)
        network.slow[client] = (self._random.choice((1, 50, 1000)), self._random.choice((0.001, 0.02)))
        await self._while_s(0.5)
        network.slow.pop(client, None)
