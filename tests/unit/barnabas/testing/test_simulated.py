"""simulate(): arguments, outcomes and failures, in the process that runs the seeds and in the caller's."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
import weakref
from functools import partial
from pathlib import Path

import pytest

from barnabas.testing import ClusterError, SimulatedCluster, SimulationFailure, simulate
from barnabas.testing.simulated import FAULTS

ROOT = Path(__file__).parents[4]
once = partial(simulate, brokers=1, faults=False)


async def hours(cluster: SimulatedCluster) -> tuple[float, float, float]:
    """Return how long an hour takes by three clocks."""
    begun = asyncio.get_running_loop().time(), time.time(), time.monotonic()
    await asyncio.sleep(3600)
    loop, wall, monotonic = begun
    return asyncio.get_running_loop().time() - loop, time.time() - wall, time.monotonic() - monotonic


async def cannot_be_sent(cluster: SimulatedCluster) -> object:
    """Return what cannot be pickled."""
    return lambda: None


class LocalError(Exception):
    """An exception that cannot be pickled: its arguments are not those of its constructor."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")


async def fails_unpicklably(cluster: SimulatedCluster) -> None:
    raise LocalError("payment", "refused")


async def exits(cluster: SimulatedCluster) -> None:
    os._exit(7)


async def waits_for_ever(cluster: SimulatedCluster) -> None:
    await asyncio.Event().wait()


async def fails_in_a_process(cluster: SimulatedCluster) -> None:
    async def process() -> None:
        raise KeyError("orders")

    cluster.run(process)
    await asyncio.sleep(60)


async def runs_processes(cluster: SimulatedCluster) -> list[object]:
    """Return what became of processes: one that returned, one that was terminated, one that was killed."""
    seen: list[object] = []

    async def sleeps(name: str) -> str:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            seen.append(f"{name} cancelled")
            raise
        finally:
            seen.append(f"{name} ended")
        return name

    returned, terminated, killed = (cluster.run(sleeps, name, name=name) for name in ("a", "b", "c"))
    await asyncio.sleep(1)
    terminated.terminate()
    killed.kill()
    seen.append(await returned.wait())
    assert [process.running for process in (returned, terminated, killed)] == [False] * 3
    return seen


def test_virtual_hours_take_no_time_by_any_clock() -> None:
    begun = time.monotonic()
    [run] = once(hours, limit=4000)
    assert run.result == pytest.approx((3600, 3600, 3600), abs=0.1)
    assert time.monotonic() - begun < 30
    assert run.seconds > 3600


def test_processes_return_and_are_terminated_and_killed() -> None:
    [run] = once(runs_processes)
    assert run.result == ["b cancelled", "b ended", "a ended", "a"]


def test_a_result_that_cannot_be_sent_is_left_out() -> None:
    assert once(cannot_be_sent)[0].result is None


def test_an_exception_that_cannot_be_pickled_is_a_failure_with_its_traceback() -> None:
    with pytest.raises(SimulationFailure, match=r"(?s)in fails_unpicklably.*LocalError: payment: refused"):
        once(fails_unpicklably)


def test_a_failing_process_fails_the_run() -> None:
    with pytest.raises(KeyError, match="orders") as failed:
        once(fails_in_a_process, seed=3)
    assert failed.value.__notes__[-1].startswith("replay: BARNABAS_SEED=3 PYTHONHASHSEED=0 python -m pytest ")


def test_a_process_that_ends_is_reported_with_its_status() -> None:
    with pytest.raises(ClusterError, match=r"seed 4: the process that ran it has ended with status 7\nreplay: "):
        once(exits, seed=4)


def test_a_run_longer_than_the_limit_fails() -> None:
    with pytest.raises(SimulationFailure, match="main has not returned after 20 s"):
        once(waits_for_ever, limit=20)


@pytest.mark.parametrize("seed", [12, -12])
def test_the_variable_replaces_the_seed(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setenv("BARNABAS_SEED", str(seed))
    assert [run.seed for run in once(cannot_be_sent, seed=range(100))] == [seed]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"brokers": 0}, "brokers=0: a cluster has 1 to 9"),
        ({"faults": ["explode"]}, f"faults: 'explode' is unknown; there are: {', '.join(FAULTS)}"),
        ({"faults": ["crush"]}, "faults: 'crush' is unknown; did you mean crash?"),
        ({"seed": []}, r"seed=\[\]: there is no seed in it, so nothing would be run"),
        ({"faults": ["isolate"], "brokers": 1}, "faults: 'isolate' needs several brokers"),
        ({"limit": 0}, "fault_interval=3.0, limit=0: these are seconds, more than 0"),
    ],
)
def test_a_wrong_argument_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.")):
        simulate(hours, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": "x"}, "seed='x': it has to be a whole number, or several, as range(100), not str"),
        ({"seed": 1.5}, "seed=1.5: it has to be a whole number, or several, as range(100), not float"),
        ({"seed": [1, "2"]}, "seed='2': it has to be a whole number, not str"),
        ({"brokers": "3"}, "brokers='3': it has to be a whole number, not str"),
        ({"faults": "crash"}, "faults='crash': it has to be True, False, or a list of names, not str"),
        ({"limit": "1 h"}, "limit='1 h': it has to be a number, not str"),
        ({"config": "a=b"}, "config='a=b': it has to be a dict, not str"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        simulate(hours, **options)  # type: ignore[arg-type]


def test_a_seed_in_the_environment_has_to_be_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_SEED", "seven")
    with pytest.raises(ValueError, match=r"^BARNABAS_SEED=seven: it has to be a whole number, the seed of the run$"):
        simulate(hours)


async def heals_at_once(cluster: SimulatedCluster) -> float:
    await cluster.heal()
    return cluster.now


async def returns_at_once(cluster: SimulatedCluster) -> None:
    pass


def test_runs_show_their_faults_and_how_long_they_were() -> None:
    runs = simulate(heals_at_once, seed=(1, 2), brokers=1, faults=["reset", "slow"])
    for run in runs:
        assert sum(run.faults.values()) == len(run.timeline) >= 5  # heal() lets some come first
        assert run.timeline[0][1] in ("reset b1", "slow b1")
        assert 0 < run.timeline[0][0] <= run.timeline[-1][0] <= run.result
    first, second, total = str(runs).splitlines()
    kinds = ", ".join(f"{number} {name}" for name, number in runs[0].faults.items())
    assert first == f"seed 1: {runs[0].seconds:.3f} s of simulated time, {len(runs[0].timeline)} faults: {kinds}"
    assert second == str(runs[1])
    assert sum(runs.faults.values()) == sum(len(run.timeline) for run in runs)
    assert total.startswith(f"2 seeds: {runs[0].seconds + runs[1].seconds:.3f} s of simulated time, ")


def test_results_of_runs_are_not_kept_for_the_report() -> None:
    runs = simulate(heals_at_once, seed=1, brokers=1, faults=["reset"])
    kept = weakref.ref(runs)
    del runs
    assert kept() is None


def test_runs_without_a_fault_are_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"^simulate: 2 of 2 runs had no fault, seed 1 in \d\.\d+ s .* cluster.heal"):
        runs = simulate(returns_at_once, seed=(1, 2), brokers=1)
    assert str(runs[0]).endswith(" s of simulated time, no faults")


def test_main_has_to_be_a_coroutine_function_of_a_module() -> None:
    async def local(cluster: SimulatedCluster) -> None:
        pass

    with pytest.raises(TypeError, match="it has to be a coroutine function that takes the cluster"):
        simulate(print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="use a function of a module, or run this one with PYTHONHASHSEED=0"):
        simulate(local)


def test_simulate_refuses_to_run_in_a_loop() -> None:
    async def within() -> None:
        simulate(hours)

    with pytest.raises(RuntimeError, match="call it from a function, not from a coroutine"):
        asyncio.run(within())


def test_the_callers_clocks_chance_and_modules_stay_as_they_are() -> None:
    program = (
        "import random, sys, time, uuid; from barnabas.testing import simulate\n"
        "random.seed(1); state = random.getstate()\n"
        "names = 'time', 'monotonic', 'perf_counter', 'sleep', 'time_ns'\n"
        "before = [getattr(time, name) for name in names]\n"
        "async def main(cluster): return uuid.uuid4().hex + str(random.random())\n"
        "first, again, other = (simulate(main, seed=seed, brokers=1)[0].result for seed in (1, 1, 2))\n"
        "print(first == again, first != other, random.getstate() == state)\n"
        "print([getattr(time, name) for name in names] == before)\n"
    )
    run = [sys.executable, "-c", program]
    here = subprocess.run(
        run, env=os.environ | {"PYTHONHASHSEED": "0"}, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert here.stdout == "True True True\nTrue\n"
