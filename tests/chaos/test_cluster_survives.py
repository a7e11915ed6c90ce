"""Three brokers under faults from a seed: nothing that was acknowledged is lost, doubled or out of order.

`BARNABAS_TEST_CHAOS_RUNS` says how many seeds are tried, `BARNABAS_TEST_CHAOS_SECONDS` for how long each; the
defaults fit into everyday runs. `make chaos MINUTES=... SEED=...` tries others.
"""

import os
import shutil
from itertools import islice
from pathlib import Path

import pytest

from tests import proofs
from tests.chaos.faults import DECK, KINDS, plan
from tests.chaos.run import run

RUNS = int(os.environ.get("BARNABAS_TEST_CHAOS_RUNS", "1"))
SECONDS = float(os.environ.get("BARNABAS_TEST_CHAOS_SECONDS", "30"))
HAS_JAVA = shutil.which("java") is not None and shutil.which("mvn") is not None


@pytest.mark.parametrize("seed", range(1, RUNS + 1))
def test_nothing_is_lost_or_doubled_whatever_happens_to_one_broker_at_a_time(seed: int, tmp_path: Path) -> None:
    outcome = run(seed, SECONDS, tmp_path / f"seed-{seed}", java=HAS_JAVA)
    proofs.count("runs of three brokers under faults")
    proofs.count("faults dealt to three brokers", outcome.faults.total())
    proofs.count("records acknowledged by three brokers under faults", outcome.verdict.counts["acknowledged"])
    assert outcome.has_passed, f"{outcome}\nagain: make chaos SEED={seed} MINUTES={SECONDS / 60:g}"


def test_a_seed_always_plans_the_same_faults() -> None:
    assert list(islice(plan(7), 100)) == list(islice(plan(7), 100))
    assert list(islice(plan(7), 100)) != list(islice(plan(8), 100))


@pytest.mark.parametrize("seed", range(5))
def test_every_kind_of_fault_comes_in_its_turn(seed: int) -> None:
    assert {fault.kind for fault in islice(plan(seed), len(DECK))} == set(KINDS)
