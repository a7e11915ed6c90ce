"""Three brokers under faults from a seed, with transactional producers and read-process-write pipelines.

No transaction is seen in part or before its commit, none is lost, and each input has one output. The runs are as many
and as long as those of `test_cluster_survives.py`. `make chaos TRANSACTIONS=1 MINUTES=... SEED=...` runs more.
"""

from pathlib import Path

import pytest

from tests import proofs
from tests.chaos.history.events import Abort, Acknowledged, Commit, Committed, Polled, ReadBack, Send
from tests.chaos.run import run
from tests.chaos.test_cluster_survives import FIRST_SEED, RUNS, SECONDS
from tests.chaos.transactional import PIPED, PIPES
from tests.chaos.workloads import Progress, name_of


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + RUNS))
def test_transactions_are_atomic_and_isolated_under_faults(seed: int, tmp_path: Path) -> None:
    outcome = run(seed, SECONDS, tmp_path / f"seed-{seed}", java=False, transactional=True)
    counts = outcome.verdict.counts
    proofs.count("runs of three brokers under faults, with transactions")
    proofs.count("faults dealt to three brokers with transactions", outcome.faults.total())
    proofs.count("transactions committed under faults", counts.get("committed", 0))
    proofs.count("transactions aborted under faults", counts.get("aborted", 0))
    proofs.count("ambiguous commits under faults", counts.get("ambiguous commits", 0))
    assert outcome.has_passed, f"{outcome}\nagain: make chaos TRANSACTIONS=1 SEED={seed} MINUTES={SECONDS / 60:g}"


def test_records_of_a_transaction_count_once_it_is_committed() -> None:
    progress = Progress(lambda _: None)
    for name in ("1", "2", "3"):
        progress(Send("t.1", name_of(0), f"t-{name}", name))
        progress(Acknowledged("t.1", name_of(0), f"t-{name}", int(name)))
        progress(Commit("t.1", name))
    assert progress.acknowledged == set()
    progress(Committed("t.1", "1"))
    progress(Abort("t.1", "2"))
    assert progress.acknowledged == {"t-1"}
    assert progress.committed == {"t": 1}
    assert progress.acknowledged_of == {}


def test_output_of_a_pipeline_is_not_due_to_groups() -> None:
    progress = Progress(lambda _: None)
    progress(Polled("p.1", PIPES, name_of(0), [(0, "a-0")], "1"))
    progress(Send("p.1", name_of(0, PIPED), "p-1", "1", "a-0"))
    progress(Acknowledged("p.1", name_of(0, PIPED), "p-1", 0))
    progress(Committed("p.1", "1"))
    assert progress.acknowledged == set()
    assert progress.committed == {"p": 1}


def test_end_of_each_partition_is_behind_its_last_record() -> None:
    progress = Progress(lambda _: None)
    progress(ReadBack(name_of(0), [(0, "a-0"), (7, "a-1")], True))
    progress(ReadBack(name_of(1), [], True))
    assert progress.ends == {name_of(0): 8, name_of(1): 0}
