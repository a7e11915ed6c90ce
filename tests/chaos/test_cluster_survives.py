"""Three brokers under faults from a seed: no acknowledged record is lost, duplicated or out of order.

`BARNABAS_TEST_CHAOS_RUNS` is the number of seeds, `BARNABAS_TEST_CHAOS_SECONDS` the duration of each; the defaults fit
into everyday runs. Clusters whose listeners are all SASL_SSL have `BARNABAS_TEST_SECURE_CHAOS_RUNS`, by default none.
Each commit is tested with other seeds, so that over time every fault comes early. `make chaos MINUTES=... SEED=...`
runs more.
"""

import os
import shutil
from itertools import islice
from pathlib import Path
from unittest.mock import Mock

import pytest
from confluent_kafka import Message

from tests import proofs
from tests.chaos import workloads
from tests.chaos.faults import DECK, KINDS, Fault, plan
from tests.chaos.gaps import BOUNDS, FAILOVER_S, REQUEST_TIMEOUT_S, SHRINK_S, gaps_of
from tests.chaos.history.events import Acknowledged, Event, Failed, Send, Unknown
from tests.chaos.run import run
from tests.chaos.workloads import PARTITIONS, JavaProducer, Progress, name_of, offset_of
from tests.seeds import first_seed

FIRST_SEED = first_seed()
RUNS = int(os.environ.get("BARNABAS_TEST_CHAOS_RUNS", "1"))
SECURE_RUNS = int(os.environ.get("BARNABAS_TEST_SECURE_CHAOS_RUNS", "0"))
SECONDS = float(os.environ.get("BARNABAS_TEST_CHAOS_SECONDS", "30"))
HAS_JAVA = shutil.which("java") is not None and shutil.which("mvn") is not None


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + RUNS))
def test_faults_of_one_broker_at_a_time_lose_and_duplicate_nothing(seed: int, tmp_path: Path) -> None:
    outcome = run(seed, SECONDS, tmp_path / f"seed-{seed}", java=HAS_JAVA)
    proofs.count("runs of three brokers under faults")
    proofs.count("faults dealt to three brokers", outcome.faults.total())
    proofs.count("records acknowledged by three brokers under faults", outcome.verdict.counts["acknowledged"])
    assert outcome.has_passed, f"{outcome}\nagain: make chaos SEED={seed} MINUTES={SECONDS / 60:g}"


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SECURE_RUNS))
def test_faults_of_a_cluster_whose_listeners_are_all_sasl_ssl_lose_and_duplicate_nothing(
    seed: int, tmp_path: Path
) -> None:
    outcome = run(seed, SECONDS, tmp_path / f"seed-{seed}", java=False, secure=True)
    proofs.count("runs of three brokers with SASL_SSL under faults")
    proofs.count("records acknowledged by three brokers with SASL_SSL", outcome.verdict.counts["acknowledged"])
    assert outcome.has_passed, f"{outcome}\nagain: make chaos SECURE=1 SEED={seed} MINUTES={SECONDS / 60:g}"


def test_seed_always_plans_the_same_faults() -> None:
    assert list(islice(plan(7), 100)) == list(islice(plan(7), 100))
    assert list(islice(plan(7), 100)) != list(islice(plan(8), 100))


@pytest.mark.parametrize("seed", range(5))
def test_every_kind_of_fault_occurs_in_plan(seed: int) -> None:
    assert {fault.kind for fault in islice(plan(seed), len(DECK))} == set(KINDS)


def test_every_kind_of_fault_has_bounds() -> None:
    assert set(BOUNDS) == set(KINDS)


@pytest.mark.parametrize(
    ("kind", "bounds"),
    [
        # number 0: the link of broker 2 to broker 1 is cut
        ("kill", [SHRINK_S, FAILOVER_S, SHRINK_S]),
        ("pause", [SHRINK_S, FAILOVER_S + REQUEST_TIMEOUT_S, SHRINK_S]),
        ("part", [FAILOVER_S + 2 * REQUEST_TIMEOUT_S, FAILOVER_S + 2 * REQUEST_TIMEOUT_S, SHRINK_S]),
        ("roll", [FAILOVER_S, FAILOVER_S, FAILOVER_S]),
    ],
)
def test_partition_with_struck_leader_may_wait_longer(kind: str, bounds: list[float]) -> None:
    fault = Fault(kind, "any", 0, 0)
    leaders = {name_of(number): number + 1 for number in range(3)}
    gaps = gaps_of(kind, fault, fault.struck(2), leaders, dict.fromkeys(leaders, 0.0))
    assert [gap.bound_s for gap in gaps] == bounds


class Clock:
    """A `Progress` with a settable time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.progress = Progress(lambda _: None, lambda: self.now_s)

    def acknowledge(self, partition: int, at_s: float) -> None:
        self.now_s = at_s
        self.progress(Acknowledged("a", name_of(partition), f"a-{partition}-{at_s}", 0))


def test_longest_gap_is_between_acknowledgements_or_still_open() -> None:
    clock = Clock()
    gaps = []
    for until_s in ((1.0, 4.0, 6.0), (7.0,), (7.5, 7.75), ()):
        for at_s in until_s:
            clock.acknowledge(0, at_s)
        clock.now_s += 0.5
        gaps.append(clock.progress.take_gaps_s())
    assert gaps == [{"proof-0": gap_s} for gap_s in (3.0, 1.0, 0.5, 1.0)]


@pytest.mark.parametrize("resumes", [True, False])
@pytest.mark.parametrize(("starving", "after_s"), [(0, FAILOVER_S), (1, SHRINK_S)])
def test_starving_partition_is_found_while_others_make_progress(starving: int, after_s: float, resumes: bool) -> None:
    fault = Fault("kill", "any", 0, 0)
    leaders = {name_of(number): number % 3 + 1 for number in range(PARTITIONS)}

    def too_long(starved_s: float) -> list[str]:
        clock = Clock()
        for number in range(PARTITIONS):
            clock.acknowledge(number, 0.0)
        clock.progress.take_gaps_s()
        for tenths in range(1, int(starved_s * 10) + 1):
            for number in set(range(PARTITIONS)) - {starving}:
                clock.acknowledge(number, tenths / 10)
        if resumes:
            clock.acknowledge(starving, starved_s)
            clock.now_s += 1
        gaps = gaps_of("kill 1", fault, fault.struck(1), leaders, clock.progress.take_gaps_s())
        return [str(gap) for gap in gaps if gap.is_too_long]

    assert too_long(after_s) == []
    expected = f"{after_s + 1:.1f} s without an acknowledgement of proof-{starving}, of {after_s:g} s at most: kill 1"
    assert too_long(after_s + 1) == [expected]


@pytest.mark.parametrize(("finishing", "problems"), [(False, 1), (True, 0)])
def test_record_sent_while_its_producer_closes_was_never_sent(
    finishing: bool, problems: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reported: list[Event] = []
    progress = Progress(reported.append)
    monkeypatch.setattr(workloads, "kafka_tool", lambda *_: [])
    producer = JavaProducer("", "j", progress, tmp_path)
    producer._finishing = finishing
    message = "Cannot perform operation after producer has been closed"
    producer._take({"name": "producer_send_error", "value": "7.1", "message": message})
    assert reported[1:] == [Send("j", "", "7.1"), Failed("j", "7.1") if finishing else Unknown("j", "7.1")]
    assert progress.errors.total() == problems


@pytest.mark.parametrize(("reported", "offset"), [(7, 7), (None, -1), (-1001, -1)])
def test_acknowledgement_without_offset_is_recorded_as_such(reported: int | None, offset: int) -> None:
    message = Mock(spec=Message)
    message.offset.return_value = reported
    assert offset_of(message) == offset
