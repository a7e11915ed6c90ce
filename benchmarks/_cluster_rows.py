"""The part of the table that clusters of three brokers fill: Barnabas', and Apache Kafka's on the same machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from benchmarks import cluster_start, failover, leader_kill, replicated_produce
from benchmarks._cluster import BARNABAS, CLUSTERS, KAFKA, Command
from benchmarks._rows import Asked, Row, at_least, at_most, no_more_than

T = TypeVar("T")
_BOUNDS_S = {failover.KILL_OTHER: 1.5, failover.KILL_CONTROLLER: 1.5, failover.ROLL: 1}


def rows(runs: int, rest_s: float) -> list[Row]:
    """Give both clusters every load, `runs` times."""

    def both(measure: Callable[[Command], T]) -> Mapping[str, list[T]]:
        return _both(measure, runs, rest_s)

    starts = both(cluster_start.measure)
    produced = both(replicated_produce.measure)
    killed = both(leader_kill.measure)
    return [
        _row("three brokers from nothing until all serve, s", no_more_than(2), starts, lambda run: run.seconds),
        _row("the same: memory of all three, MB", no_more_than(200), starts, lambda run: run.resident_mb),
        _row("acks=all, three replicas: MB/s", at_least(1.2), produced, lambda run: run.mb_per_s),
        _row("the same: CPU s/GB of all three", at_most(0.65), produced, lambda run: run.cpu_s_per_gb),
        _row("the same: memory of all three at most, MB", no_more_than(300), produced, lambda run: run.resident_mb),
        _row("3,000 partitions of three replicas: create, s", at_most(1), killed, lambda run: run.create_s),
        _row("the same: a third led anew after a kill, s", no_more_than(2), killed, lambda run: run.moved_s),
        *_interrupted(runs),
    ]


def _row(name: str, asked: Asked, found: Mapping[str, list[T]], figure: Callable[[T], float]) -> Row:
    return Row(name, asked, *([figure(run) for run in found[cluster]] for cluster in (BARNABAS, KAFKA)))


def _both(measure: Callable[[Command], T], runs: int, rest_s: float) -> Mapping[str, list[T]]:
    """Measure both, in pairs that alternate who goes first."""
    found: dict[str, list[T]] = {name: [] for name in CLUSTERS}
    for run in range(runs):
        for name in list(CLUSTERS)[:: -1 if run % 2 else 1]:
            print(f"{measure.__module__}, run {run + 1}: {name}", file=sys.stderr, flush=True)
            time.sleep(rest_s)
            found[name].append(measure(CLUSTERS[name]))
    return found


def _interrupted(runs: int) -> list[Row]:
    """Measure what a producer notices when brokers are killed or restarted."""
    found = {name: failover.measure(command, runs) for name, command in CLUSTERS.items()}
    rows = []
    for event, bound_s in _BOUNDS_S.items():
        runs_of = {name: interrupted[event] for name, interrupted in found.items()}
        rows.append(_row(f"{event}: longest gap, s", no_more_than(bound_s), runs_of, lambda run: run.longest_gap_s))
        rows.append(_row("the same: records refused, lost or twice there", no_more_than(0), runs_of, _wrong))
    return rows


def _wrong(run: failover.Interruption) -> float:
    return run.refused + run.lost + run.doubled
