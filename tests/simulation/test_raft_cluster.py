"""Raft under the simulation's faults; and the simulation with planted bugs."""

from __future__ import annotations

import os

import pytest

from tests.planting import Bug, replay
from tests.simulation.raft_bugs import BUGS, SIMULATED_MS, control_of, outcome_of
from tests.simulation.raft_cluster import RaftCluster, simulate

# The seeds of every run; BARNABAS_TEST_RAFT_SEEDS adds more.
SEEDS = int(os.environ.get("BARNABAS_TEST_RAFT_SEEDS", "20"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_raft_keeps_its_promises(seed: int) -> None:
    cluster = simulate(seed, SIMULATED_MS)
    assert len(cluster.promises.leaders) > 1, "nothing happened that would have tried it"
    assert cluster.promises.committed_end > 100


def test_seed_decides_everything() -> None:
    def fate(cluster: RaftCluster) -> tuple[object, ...]:
        return cluster.events, cluster.now_ms, cluster.promises.leaders, cluster.promises.states

    assert fate(simulate(5, 4_000)) == fate(simulate(5, 4_000))
    assert fate(simulate(5, 4_000)) != fate(simulate(6, 4_000))


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bug_breaks_its_promise(bug: Bug) -> None:
    assert replay(bug, outcome_of, control_of) == ""
