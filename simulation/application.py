"""One run of a user's asyncio application and a whole cluster in virtual time, from a seed.

    main      the coroutine function that is run, on the host `main`; it gets the `ApplicationCluster`
    b1, b2    the hosts of the brokers
    others    the processes that `main` starts, each on a host of its own; they can be killed

The run ends when `main` returns, and fails with the first exception that leaves `main` or another process. Everything
is decided by the seed: the order of events, the network's delays, the faults, and the chance and clocks of the
application (`virtual_time.py`). Two runs of a seed are equal if the application does nothing that a seed cannot decide:
no threads of its own, no file or network but the simulated one, no order of a set of strings (which `PYTHONHASHSEED`
decides).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import pickle
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from simulation.application_cluster import ApplicationCluster, ApplicationProcess
from simulation.cluster import Host, World, cluster_settings, logs_watched
from simulation.faults import Faults
from simulation.loop import Loop, Schedule, Trace
from simulation.network import Network
from simulation.violation import Invariant, Violation
from simulation.virtual_time import virtual_time

Main = Callable[[ApplicationCluster], Coroutine[Any, Any, Any]]

BROKER_FAULTS = ("kill", "stop", "pause", "jump", "partition", "reset", "slow", "slow_syncs")
CLUSTER_FAULTS = ("isolate", "slow_down", "kill_others")
CRASH = "crash"
"""The fault of the application's own processes."""
FAULTS = (*BROKER_FAULTS, *CLUSTER_FAULTS, CRASH)
_FEWEST_FAULTS = 5
_LONGEST_WAIT = 10
"""`heal` waits for so many faults, for at most so many of the usual times between two."""
_FIRST_READS = 100
_NEXT_READS = 6

_SETTINGS: Mapping[str, object] = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": True,
}
_CLUSTER_SETTINGS: Mapping[str, object] = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "replica.lag.time.max.ms": 4_000,
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 500,
}
_DOWN_S = (0.05, 0.3, 3.0)
_MOMENT_S = (0.001, 0.005, 0.02, 0.1)
_STEP_S = 0.1


class ApplicationRun(NamedTuple):
    """The outcome of a run that did not fail."""

    seed: int
    result: Any
    """What `main` returned."""
    seconds: float
    """The simulated time that it took."""
    events: int
    digest: str
    """A hash of all events: equal for equal runs."""
    faults: dict[str, int]
    """How often each fault was injected."""
    timeline: tuple[tuple[float, str], ...]
    """The faults in order: the simulated time in s, and the fault with its machine."""


class ApplicationPlan(NamedTuple):
    """What is run; the arguments of `barnabas.testing.simulate`."""

    main: Main
    brokers: int
    faults: Collection[str]
    fault_interval_s: float
    config: Mapping[str, object]
    limit_s: float


def run_seed(plan: ApplicationPlan, seed: int) -> ApplicationRun:
    """Run `plan` with `seed`; raise what failed, with a note of the time and the faults before it."""
    with _quiet():
        return _Application(plan, seed).run()


@contextmanager
def _quiet() -> Iterator[None]:
    """Collect garbage and let killed processes' clients go without a warning, after the run and not during it."""
    collecting, hook, disabled = gc.isenabled(), sys.unraisablehook, logging.root.manager.disable
    gc.disable()  # the time of a collection is not the seed's choice
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            try:
                yield
            finally:
                # Only now the `finally` blocks of killed processes run, which may await and log.
                sys.unraisablehook = lambda _: None
                logging.disable()
                gc.collect()
    finally:
        sys.unraisablehook = hook
        logging.disable(disabled)
        if collecting:
            gc.enable()


class _Application:
    """The brokers and processes of one run."""

    def __init__(self, plan: ApplicationPlan, seed: int) -> None:
        self._plan = plan
        self.schedule = schedule = Schedule(World.random_of(seed, "schedule"), Trace())
        self.world = world = World(seed, schedule, Network(schedule, World.random_of(seed, "network")))
        self._random = world.random("application")
        names = [f"b{number}" for number in range(1, plan.brokers + 1)]
        settings = dict(_SETTINGS)
        if plan.brokers > 1:
            replicas = min(3, plan.brokers)
            internal = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
            settings |= {**_CLUSTER_SETTINGS, "default.replication.factor": replicas}
            settings |= dict.fromkeys(internal, replicas) | {"transaction.state.log.min.isr": min(2, replicas)}
        settings |= plan.config
        hosts: list[Host] = []
        hosts += [Host(world, name, cluster_settings(names, at, settings), hosts) for at, name in enumerate(names)]
        self._fate = schedule.keeper = schedule.loop("fate")
        schedule.after_event = self._after_event
        self._clients = ["main"]
        self._faults = Faults(world, self._clients, plan.fault_interval_s, plan.faults)
        self._disturbing: list[asyncio.Task[None]] = []
        self.cluster = ApplicationCluster(world, self._fate, self._heal, self._clients)

    def run(self) -> ApplicationRun:
        world, schedule = self.world, self.schedule
        with logs_watched(world), virtual_time(schedule, world.random("chance")):
            try:
                result = _copied(schedule.run(self._fate, self._all()))
            except BaseException as raised:
                failure = world.found or raised
                failure.add_note(_failure_note(world))
                raise failure from failure.__cause__
            finally:
                for loop in schedule.loops:
                    loop.die()
        timeline = tuple(world.timeline)
        names = (what.rpartition(" ")[0].replace(" ", "_") for _, what in timeline)
        faults = dict(sorted(Counter(names).items()))
        return ApplicationRun(
            world.seed, result, schedule.now, schedule.events, schedule.trace.digest, faults, timeline
        )

    def _after_event(self, loop: Loop) -> None:
        world = self.world
        if world.found is not None:
            raise world.found
        if world.clustered:
            self._look_at_metadata(loop)
        if self.schedule.now > self._plan.limit_s:
            raise Violation(Invariant.PROGRESS, f"main has not returned after {self._plan.limit_s:g} s")

    def _look_at_metadata(self, loop: Loop) -> None:
        """Follow the metadata, by which `Faults` decides what may be broken without a loss."""
        host = next((host for host in self.world.hosts if host.loop is loop), None)
        if host is None or host.node is None or host.state in ("off", "failed"):
            return
        image = host.node.shared.raft.image
        if image.offset > self.world.newest_offset:
            self.world.newest = image

    async def _all(self) -> Any:
        for host in self.world.hosts:
            host.start()
        while any(host.state != "up" for host in self.world.hosts):
            await asyncio.sleep(0.01)
        await self.cluster.serving()
        main = ApplicationProcess(self.cluster, "main", self._plan.main, (self.cluster,), restart=False)
        main.start()
        if self._plan.faults:
            names = set(self._plan.faults)
            self._disturb(self._faults.run(), names - {CRASH})
            self._disturb(self._crash_processes(), names & {CRASH})
        return await main.ended(self._fate)

    def _disturb(self, work: Coroutine[Any, Any, None], wanted: Collection[str]) -> None:
        if wanted:
            self._disturbing.append(self._fate.create_task(work))
        else:
            work.close()

    async def _crash_processes(self) -> None:
        """Kill processes that restart, one after the other.

        What a process does next changes when it reads a response, so it is killed a moment after one: the first time
        early, within its first reads if these come sooner than the usual time, so that work of a second is hit too.
        """
        world, random, most_reads = self.world, self._random, _FIRST_READS
        while not world.stopping:
            pause_s = random.expovariate(1 / self._plan.fault_interval_s)
            process = await self._reading(random.randint(1, most_reads), pause_s)
            if process is None:
                process = await self._reading(random.randint(1, _NEXT_READS), self._plan.fault_interval_s)
            most_reads *= 2
            await asyncio.sleep(random.expovariate(1 / random.choice(_MOMENT_S)))
            mortal = [process for process in self.cluster.processes if process.restart and process.running]
            if mortal and not world.stopping:
                if process not in mortal:
                    process = random.choice(mortal)
                world.timeline.append((self.schedule.now, f"{CRASH} {process.name}"))
                process.kill()
                await asyncio.sleep(random.expovariate(1 / random.choice(_DOWN_S)))
                process.start()

    async def _reading(self, reads: int, timeout_s: float) -> ApplicationProcess | None:
        """Return the process that makes the last of so many reads of processes that restart; None if it is late."""
        found: asyncio.Future[ApplicationProcess] = self._fate.create_future()
        left = reads

        def on_read(process: ApplicationProcess) -> None:
            nonlocal left
            left -= process.restart
            if left <= 0 and process.restart and not found.done():
                found.set_result(process)

        self.cluster.on_read = on_read
        try:
            async with asyncio.timeout(timeout_s):
                return await found
        except TimeoutError:
            return None
        finally:
            self.cluster.on_read = None

    async def _heal(self) -> None:
        """End all faults, start no more, and return when all brokers serve.

        A `main` that is done within a moment gets some faults first: nothing would have been tried otherwise.
        """
        latest = self.schedule.now + _LONGEST_WAIT * self._plan.fault_interval_s
        world = self.world
        while not world.stopping and self._disturbing and len(world.timeline) < _FEWEST_FAULTS:
            if self.schedule.now >= latest:
                break
            await asyncio.sleep(_STEP_S)
        world.stopping = True
        await asyncio.gather(*self._disturbing)
        await self._faults.heal()
        await self.cluster.serving()


def _copied(result: Any) -> Any:
    """Return a copy that what remains of killed processes cannot change; the same object if it cannot be pickled."""
    try:
        return pickle.loads(pickle.dumps(result))  # noqa: S301 - its own
    except Exception:
        return result


def _failure_note(world: World) -> str:
    """Return the time and the last faults of a failed run."""
    faults = [f"{when:8.3f} s  {what}" for when, what in world.timeline[-20:]]
    left_out = len(world.timeline) - len(faults)
    first = [f"  ({left_out} faults before)"] if left_out else []
    lines = [*first, *(f"  {fault}" for fault in faults)] or ["  none"]
    return "\n".join((f"seed {world.seed}, {world.schedule.now:.3f} s of simulated time; faults until then:", *lines))
