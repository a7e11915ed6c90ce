"""Three brokers under faults from a seed: nothing that was acknowledged is lost, doubled or out of order.

`BARNABAS_TEST_CHAOS_RUNS` says how many seeds are tried, `BARNABAS_TEST_CHAOS_SECONDS` for how long each; the
defaults fit into everyday runs. Each commit is tried with other seeds, so that in time every fault comes early.
`make chaos MINUTES=... SEED=...` tries more.
"""

import os
import shutil
from itertools import islice
from pathlib import Path

import pytest

from tests import proofs
from tests.chaos.faults import DECK, KINDS, Fault, plan
from tests.chaos.gaps import BOUNDS_S, FAILOVER_S, REQUEST_TIMEOUT_S, bound_s
from tests.chaos.history.events import Acknowledged
from tests.chaos.run import run
from tests.chaos.workloads import Progress
from tests.seeds import first_seed

FIRST_SEED = first_seed()
RUNS = int(os.environ.get("BARNABAS_TEST_CHAOS_RUNS", "1"))
SECONDS = float(os.environ.get("BARNABAS_TEST_CHAOS_SECONDS", "30"))
HAS_JAVA = shutil.which("java") is not None and shutil.which("mvn") is not None


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + RUNS))
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


def test_every_kind_of_fault_has_a_bound() -> None:
    assert set(BOUNDS_S) == set(KINDS)


@pytest.mark.parametrize(
    ("kind", "leads_all", "bound"),
    [
        ("pause", False, FAILOVER_S),
        ("pause", True, FAILOVER_S + REQUEST_TIMEOUT_S),
        ("kill", True, FAILOVER_S),
    ],
)
def test_only_a_silent_leader_of_everything_may_cost_the_clients_time_out(
    kind: str, leads_all: bool, bound: float
) -> None:
    fault = Fault(kind, "any", 0, 0)
    assert bound_s(fault, leads_all=leads_all) == bound


def test_the_longest_gap_is_that_between_acknowledgements_or_the_one_that_lasts() -> None:
    now_s = 0.0
    progress = Progress(lambda _: None, lambda: now_s)
    gaps = []
    for until_s in ((1.0, 4.0, 6.0), (7.0,), (7.5, 7.75), ()):
        for now_s in until_s:
            progress(Acknowledged("a", "proof-0", f"a-{now_s}", int(now_s)))
        now_s += 0.5
        gaps.append(progress.take_gap_s())
    assert gaps == [3.0, 1.0, 0.5, 1.0]
