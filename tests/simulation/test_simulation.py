"""The simulator at test scale: seeds without findings, reproducible runs, and planted bugs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from simulation.violation import EVERYWHERE, REPORTED, Invariant
from tests import proofs
from tests.planting import Bug, replay
from tests.seeds import first_seed
from tests.simulation import availability, find_bugs
from tests.simulation.simulation import Simulation, run, unchecked

if TYPE_CHECKING:
    from simulation.cluster import Host, World
    from tests.simulation.producers import Producer

SEEDS = int(os.environ.get("BARNABAS_TEST_SEEDS", "20"))
CLUSTERS = 3
EVENTS = int(os.environ.get("BARNABAS_TEST_SIMULATED_EVENTS", "20000"))


FIRST_SEED = first_seed()


def brokers_of(seed: int) -> int:
    """Return the number of brokers of a seed: one of four seeds has a single broker."""
    return 1 if seed % 4 == 0 else CLUSTERS


def has_transactions(seed: int) -> bool:
    """Return whether the clients of a seed are transactional: those of a quarter of the clusters and lone brokers."""
    return seed // 4 % 4 == 0


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_seed_finds_nothing(seed: int) -> None:
    brokers, transactions = brokers_of(seed), has_transactions(seed)
    outcome = run(seed, EVENTS, brokers, transactions=transactions)
    proofs.count("events of simulated brokers" if brokers == 1 else "events of simulated clusters", outcome.events)
    replay = f"python -m tests.simulation --brokers {brokers} --seed {seed} --events {EVENTS}"
    replay += " --transactions" if transactions else ""
    assert outcome.error is None, f"{outcome.error!r}; replay: {replay}"
    if transactions:
        assert outcome.counts["committed transactions"] > 5
        assert outcome.counts["committed records that were read"] > 20
    else:
        assert outcome.counts["acknowledged records"] > 20
        assert outcome.counts["read records"] > 20


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + max(2, SEEDS // 10)))
def test_seed_with_credentials_finds_nothing(seed: int) -> None:
    outcome = run(seed, EVENTS, CLUSTERS, credentials=True)
    proofs.count("events of simulated clusters with credentials", outcome.events)
    replay = f"python -m tests.simulation --brokers {CLUSTERS} --seed {seed} --events {EVENTS} --credentials"
    assert outcome.error is None, f"{outcome.error!r}; replay: {replay}"
    assert outcome.counts["tokens created"] > 1
    assert outcome.counts["users that were created and removed"] > 1


@pytest.mark.parametrize(
    "options",
    [
        ("--brokers", "1"),
        ("--brokers", "3"),
        ("--brokers", "3", "--transactions"),
        ("--brokers", "3", "--credentials"),
    ],
)
def test_same_seed_repeats_run_in_another_process(options: tuple[str, ...]) -> None:
    def hash_with(hash_seed: str) -> str:
        command = [sys.executable, "-m", "tests.simulation", *options, "--seed", "3", "--seeds", "2"]
        command += ["--events", "3000"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        lines = done.stdout.splitlines()
        # A run this short may prepare no transaction. Nothing else may fail.
        unprepared = lines.count("Violation: never checked: PREPARED_TRANSACTIONS_STAY")
        assert unprepared == 0 or "--transactions" in options
        assert sum(line.startswith("replay: ") for line in lines) == unprepared, done.stdout
        assert done.returncode == (unprepared > 0), done.stderr
        return "\n".join(line for line in lines if "hash" in line)

    first = hash_with("1")
    assert first.count("hash") == 2
    assert hash_with("2") == first


@pytest.mark.parametrize("bug", find_bugs.ALL, ids=lambda bug: bug.name)
def test_planted_bug_breaks_its_invariant(bug: Bug) -> None:
    """The recorded seed finds it, and finds nothing without the bug."""
    assert replay(bug, find_bugs.outcome_of, find_bugs.control_of) == ""


def test_recorded_seeds_check_every_invariant() -> None:
    """Run the seeds of the planted bugs without them. Reported invariants have no check to count."""
    checked = Counter[Invariant]()
    for seed, scenario in sorted({(bug.seed, find_bugs.scenario_of(bug)) for bug in find_bugs.ALL}):
        checked.update(find_bugs.control(seed, scenario).checked)
    assert [invariant.name for invariant in Invariant if not checked[invariant] and invariant not in REPORTED] == []


def test_no_bug_is_found_by_any_exception() -> None:
    """A patch that does not fit the product causes a traceback, which proves nothing about the bug."""
    assert not [bug.name for bug in find_bugs.ALL if bug.invariant is Invariant.NO_TRACEBACK]


def test_invariant_without_check_is_found() -> None:
    simulation = Simulation(1, 0)
    simulation.world.checked.update(EVERYWHERE)
    assert unchecked(simulation.world) == []
    del simulation.world.checked[Invariant.ONE_QUORUM_LEADER]
    assert unchecked(simulation.world) == ["ONE_QUORUM_LEADER"]


class LongPauses(Random):
    """Randomness of a client whose pauses are all longer than any limit."""

    drawn = 0

    def expovariate(self, lambd: float = 1.0) -> float:
        self.drawn += 1
        return 1e3


def test_acks_all_goes_on_also_for_a_producer_that_drew_a_long_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a seed whose produce request times out before `replica.lag.time.max.ms` (4 s) has passed."""
    random, choose = LongPauses(4), availability._choose

    def chosen(world: World, producer: Producer) -> tuple[int, Host, Host] | None:
        producer.client.random = random
        return choose(world, producer)

    monkeypatch.setattr(availability, "_choose", chosen)
    outcome = run(4, 2000, CLUSTERS)
    assert outcome.error is None
    assert outcome.counts["followers that left the ISR"] == 1
    assert random.drawn > 0, "no attempt of the producer failed"
