"""Simulated time for asyncio applications: `simulate(main, seed=range(100))` runs `main` and a cluster by seed.

    async def main(cluster: SimulatedCluster) -> None: ...

`main`, its processes, the brokers, their disks and the network share one virtual time: an hour of retries, rebalances
and failovers takes seconds, and a seed decides everything. Clients, such as aiokafka, run unmodified. The guide is in
docs/TESTING.md; the machinery is `simulation/` of the server (docs/SIMULATION.md), imported only into the process that
runs the seeds (`_simulation.py`).
"""

from __future__ import annotations

import asyncio
import inspect
import os
import warnings
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from random import Random
from typing import Any, Protocol

from barnabas.testing._arguments import did_you_mean, mapping, number, whole_number, wrong_type
from barnabas.testing._simulation import SEED_VARIABLE, Main, Simulation, SimulationRuns, finished, run_seeds

FAULTS = {
    "crash": "a process of the application that may restart is killed, and starts again",
    "kill": "a broker is killed, and starts again",
    "kill_others": "all brokers but one are killed, one after the other",
    "stop": "a broker is shut down in order, and starts again",
    "pause": "a broker stands still, as after SIGSTOP",
    "jump": "the wall clock of a broker jumps by up to 20 minutes",
    "partition": "nothing passes between a broker and some other machines, in one direction or both",
    "isolate": "nothing passes between a broker and one or all others",
    "reset": "connections of a broker break",
    "slow": "a machine of the application reads slowly",
    "slow_down": "a broker reads slowly",
    "slow_syncs": "the disk of a broker syncs slowly",
}
"""The faults of a run, by the names that `simulate` takes."""
MOST_BROKERS = 9
_OF_CLUSTERS = ("isolate", "slow_down", "kill_others")


class SimulatedRecord(Protocol):
    """A committed record of a topic."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class SimulatedBroker(Protocol):
    """A broker and its machine."""

    @property
    def node_id(self) -> int:
        """Return the broker's id, 1 or more."""

    @property
    def bootstrap(self) -> str:
        """Return its address in the simulated network."""

    @property
    def running(self) -> bool:
        """Return whether its process runs and serves."""

    def kill(self) -> None:
        """End the process, as kill -9 does."""

    def start(self) -> None:
        """Start the process, unless it runs."""

    async def stop(self) -> None:
        """Shut the process down in order, as SIGTERM does; return when it has ended."""

    async def restart(self) -> None:
        """Stop it in order and start it; return when it serves."""

    def pause(self) -> None:
        """Stop the process without ending it, as SIGSTOP does."""

    def resume(self) -> None:
        """Let a paused process go on."""

    def cut_off(self) -> None:
        """Let nothing pass between this broker and any other machine until `reconnect`."""

    def reconnect(self) -> None:
        """End `cut_off`."""


class SimulatedProcess(Protocol):
    """A process of the application, on a machine of its own."""

    name: str
    starts: int

    @property
    def running(self) -> bool:
        """Return whether it runs."""

    def start(self) -> None:
        """Start it, unless it runs: its function is called anew."""

    def kill(self) -> None:
        """End it at once, as kill -9 does: none of its code runs any more, no `finally` either."""

    def terminate(self) -> None:
        """Send SIGTERM: call the loop's handler for it, or without one cancel the function."""

    async def wait(self) -> Any:
        """Return what its function has returned, or raise what it has raised."""


class SimulatedCluster(Protocol):
    """The argument of `main`: the cluster, and the processes of the application."""

    bootstrap: str
    """The brokers' addresses in the simulated network."""
    seed: int
    random: Random
    """Chance by seed. The module `random` is seeded too."""

    @property
    def brokers(self) -> list[Any]:
        """Return the brokers: each a `SimulatedBroker`."""

    @property
    def now(self) -> float:
        """Return the simulated time in s since the start."""

    def run(
        self,
        function: Callable[..., Coroutine[Any, Any, Any]],
        *args: Any,
        name: str | None = None,
        restart: bool = False,
    ) -> Any:
        """Start a process that runs `function(*args)`; return the `SimulatedProcess`.

        With `restart`, the fault `crash` may kill it, and starts it again.
        """

    async def topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic; return its name once every running broker knows its leaders."""

    async def heal(self) -> None:
        """End all faults for the rest of the run; return when all brokers serve and crashed processes run again.

        If fewer than five faults have been injected, more come first, for at most ten times `fault_interval`.
        """

    def records(self, topic: str) -> list[Any]:
        """Return the committed records, each a `SimulatedRecord`, in no time and without the network."""


def simulate(
    main: Main,
    *,
    seed: int | Iterable[int] = 1,
    brokers: int = 3,
    faults: bool | Collection[str] = True,
    fault_interval: float = 3.0,
    config: Mapping[str, object] | None = None,
    limit: float = 3600.0,
) -> SimulationRuns:
    """Run `main(cluster)` and the cluster in virtual time, once for each seed; return the runs.

    What a run raises is raised, with notes: the faults, and the command that replays the seed. `print` of what is
    returned shows the faults of each run and how long it was. `faults` are names of `FAULTS`, by default all; the usual
    time between two is `fault_interval` s. `config` has settings of the brokers. A run that takes more than `limit` s
    of simulated time fails. `BARNABAS_SEED` replaces `seed`. UserWarning if most runs had ended before the first fault.

    `main` has to be importable, because the seeds run in a process of their own, in which the hashes of strings are not
    random; with PYTHONHASHSEED=0 they run in this process, and a debugger can be used.
    """
    if _in_a_loop():
        raise RuntimeError("simulate() runs event loops of its own: call it from a function, not from a coroutine")
    if not (inspect.iscoroutinefunction(main) or inspect.iscoroutinefunction(getattr(main, "func", None))):
        raise TypeError(f"main={main!r}: it has to be a coroutine function that takes the cluster")
    if not 1 <= whole_number("brokers", brokers) <= MOST_BROKERS:
        raise ValueError(f"brokers={brokers}: a cluster has 1 to {MOST_BROKERS}")
    if number("fault_interval", fault_interval) <= 0 or number("limit", limit) <= 0:
        raise ValueError(f"fault_interval={fault_interval}, limit={limit}: these are seconds, more than 0")
    seeds = _seeds(seed)
    chosen = _faults(faults, brokers)
    runs = run_seeds(Simulation(main, brokers, chosen, fault_interval, mapping("config", config), limit), seeds)
    finished.append(str(runs))
    spared = [run for run in runs if chosen and not run.timeline]
    if len(spared) > len(runs) / 2:
        warnings.warn(
            f"simulate: {len(spared)} of {len(runs)} runs had no fault, seed {spared[0].seed} in "
            f"{spared[0].seconds:.3f} s of simulated time: call cluster.heal() in main, let the application work for "
            "longer, or set fault_interval",
            stacklevel=2,
        )
    return runs


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _seeds(seed: int | Iterable[int]) -> list[int]:
    """Return the seeds of the environment, or of the argument; TypeError or ValueError unless they are numbers."""
    given = os.environ.get(SEED_VARIABLE, "").strip()
    if given:
        try:
            return [int(given)]
        except ValueError:
            raise ValueError(f"{SEED_VARIABLE}={given}: it has to be a whole number, the seed of the run") from None
    if isinstance(seed, int):
        return [whole_number("seed", seed)]
    if isinstance(seed, str | bytes) or not isinstance(seed, Iterable):
        raise wrong_type("seed", seed, "a whole number, or several, as range(100)")
    found = [whole_number("seed", one) for one in seed]
    if not found:
        raise ValueError(f"seed={seed!r}: there is no seed in it, so nothing would be run")
    return found


def _faults(faults: bool | Collection[str], brokers: int) -> tuple[str, ...]:
    """Return the names of the faults; raise ValueError for an unknown one, or one that needs a cluster."""
    fitting = [name for name in FAULTS if brokers > 1 or name not in _OF_CLUSTERS]
    if isinstance(faults, bool):
        return tuple(fitting) if faults else ()
    if isinstance(faults, str | bytes) or not isinstance(faults, Collection):
        raise wrong_type("faults", faults, "True, False, or a list of names")
    for name in faults:
        if name not in FAULTS:
            raise ValueError(f"faults: {name!r} is unknown{did_you_mean(name, FAULTS)}")
        if name not in fitting:
            raise ValueError(f"faults: {name!r} needs several brokers")
    return tuple(faults)
