"""The table rows about clusters of three brokers: Barnabas and Apache Kafka on the same machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from benchmarks import cluster_start, failover, leader_kill, replicated_produce, transactions
from benchmarks._cluster import BARNABAS, CLUSTERS, KAFKA, Command
from benchmarks._rows import Row, Target, at_least, at_most, in_turn, no_more_than, row
from benchmarks._rows import runs as figures_of_runs
from benchmarks._warmth import Warmed

T = TypeVar("T")
_TARGET = {
    failover.KILL_OTHER: no_more_than(1.5),
    failover.KILL_CONTROLLER: no_more_than(1.5),
    failover.PAUSE: at_most(1),
    failover.CUT: at_most(1),
    failover.ROLL: no_more_than(1),
}


def rows(runs: int, rest_s: float) -> list[Row]:
    """Run every load on both clusters, `runs` times."""

    def both(measure: Callable[[Command], T]) -> Mapping[str, list[T]]:
        return _both(measure, runs, rest_s)

    starts = both(cluster_start.measure)
    produced = both(replicated_produce.measure)
    committed = both(transactions.measure_cluster)
    killed = both(leader_kill.measure)
    killed_in_memory = both(partial(leader_kill.measure, directory="/dev/shm"))
    return [
        _row("three brokers from nothing until all serve, s", no_more_than(2), starts, lambda run: run.seconds),
        _row("the same: memory of all three, MB", no_more_than(200), starts, lambda run: run.resident_mb),
        _warmed(replicated_produce.MB_PER_S, at_least(1.2), produced),
        _warmed(replicated_produce.CPU, at_most(0.65), produced),
        _warmed(replicated_produce.MEMORY, no_more_than(300), produced),
        *(
            _warmed(name, target, committed)
            for name, target in transactions.TARGET.items()
            if name.startswith(transactions.REPLICATED)
        ),
        _row("3,000 partitions of three replicas on tmpfs: create, s", no_more_than(2), killed_in_memory, _creation),
        _row("the same on this disk, s", at_most(1), killed, _creation),
        row("the same: a plain loop that makes these files, s", at_most(60), [run.files_s for run in killed[BARNABAS]]),
        _row("the same: a third led anew after a kill, s", no_more_than(2), killed, lambda run: run.moved_s),
        *_interrupted(runs),
    ]


def _row(name: str, target: Target, found: Mapping[str, list[T]], figure: Callable[[T], float]) -> Row:
    return row(name, target, [figure(run) for run in found[BARNABAS]], [figure(run) for run in found[KAFKA]])


def _warmed(name: str, target: Target, found: Mapping[str, list[Warmed]]) -> Row:
    return Row(name, target, figures_of_runs(found[BARNABAS], name), figures_of_runs(found[KAFKA], name))


def _both(measure: Callable[[Command], T], runs: int, rest_s: float) -> Mapping[str, list[T]]:
    """Measure both, in pairs with alternating order."""
    found: dict[str, list[T]] = {name: [] for name in CLUSTERS}
    for run in range(runs):
        for name in in_turn(CLUSTERS, run):
            print(f"{_name(measure)}, run {run + 1}: {name}", file=sys.stderr, flush=True)
            time.sleep(rest_s)
            found[name].append(measure(CLUSTERS[name]))
    return found


def _name(measure: Callable[[Command], object]) -> str:
    return str(getattr(measure, "func", measure).__module__)


def _interrupted(runs: int) -> list[Row]:
    """Measure the interruptions of a producer when brokers fail or restart."""
    found = failover.measure_in_turn(CLUSTERS, runs)
    rows = []
    for event, target in _TARGET.items():
        runs_of = {name: interrupted[event] for name, interrupted in found.items()}
        rows.append(_row(f"{event}: longest gap, s", target, runs_of, lambda run: run.longest_gap_s))
        rows.append(_row("the same: records refused, lost or duplicated", no_more_than(0), runs_of, _wrong))
    return rows


def _creation(run: leader_kill.Killed) -> float:
    return run.create_s


def _wrong(run: failover.Interruption) -> float:
    return run.refused + run.lost + run.doubled
