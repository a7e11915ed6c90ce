"""Checks a history against Kafka's guarantees.

    lost write            acknowledged or read, and missing at the end
    aborted read          a failed or aborted record was read (G1a)
    intermediate read     a part of a transaction is stored (G1b)
    duplicate             an idempotent producer's record has two offsets
    inconsistent offsets  an offset has two records
    unsent read           a record was read that no producer sent
    non-monotonic poll    within one assignment, a consumer's position went back
    skipped poll          within one assignment, a consumer did not receive a record
    non-monotonic send    an idempotent producer's records are not stored in the order in which they were sent
    precommitted read     a transaction's record was read before its commit was requested
    write-read cycle      transactions read each other's records in a cycle (G1c)
    broken read-process-write
                          a pipeline's output was made twice, or its input's offset was not committed with it
    unseen                acknowledged, stored at the end, and never received by a group that received others

Allowed, as in Jepsen's workload for Kafka: write cycles (G0), gaps between the records that one producer sends, and
skips and repetitions across assignments. Also allowed: a transaction's records become readable in one partition before
they do in another, as Kafka writes a marker to each. An ambiguous commit may have happened or not, as a whole.

A run with fewer than `MIN_ACKNOWLEDGED` acknowledgements, or in which less than `MIN_READ_BACK` of the acknowledged
records were read back, is inconclusive: its outcome is unknown, never passed. So is a run with transactions of which
fewer than `MIN_COMMITTED` were committed or none aborted, or whose pipelines processed less than `MIN_PROCESSED` of
their input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from tests.chaos.history import records, transactions
from tests.chaos.history.events import Event
from tests.chaos.history.index import Anomaly, History

MIN_ACKNOWLEDGED = 100
MIN_READ_BACK = 0.9

PASSED, FAILED, UNKNOWN = "passed", "failed", "unknown"

# Checks that hold for any history; `records.unseen` holds only for one that is long enough.
CHECKS = (
    records.lost_writes,
    records.aborted_reads,
    records.duplicates,
    records.inconsistent_offsets,
    records.unsent_reads,
    records.polls_out_of_order,
    records.sends_out_of_order,
    transactions.precommitted_reads,
    transactions.intermediate_reads,
    transactions.broken_pipelines,
    transactions.write_read_cycles,
)


class Verdict(NamedTuple):
    """The verdict on a history: the outcome, why it is unknown, all anomalies, and the event counts."""

    outcome: str
    reason: str
    anomalies: list[Anomaly]
    counts: dict[str, int]

    def __str__(self) -> str:
        kinds = Counter(anomaly.name for anomaly in self.anomalies)
        lines = [f"{self.outcome}{self.reason and ': '}{self.reason}"]
        lines += [f"{count:>8} {what}" for what, count in self.counts.items()]
        lines += [f"{count:>8} x {name}" for name, count in kinds.items()]
        return "\n".join([*lines, *map(str, self.anomalies[:20])])


def check(events: Iterable[Event], min_acknowledged: int = MIN_ACKNOWLEDGED) -> Verdict:
    """Return the verdict on a whole history."""
    history = History(events)
    anomalies = [anomaly for find in CHECKS for anomaly in find(history)]
    unseen = [*records.unseen(history)]
    reason = _too_little(history, min_acknowledged) or transactions.too_few_transactions(history)
    if anomalies:
        return Verdict(FAILED, "", anomalies + unseen, history.counts())
    if reason:
        return Verdict(UNKNOWN, reason, [], history.counts())
    return Verdict(FAILED if unseen else PASSED, "", unseen, history.counts())


def _too_little(history: History, min_acknowledged: int) -> str:
    """Return why the history is too short for a verdict; empty if it is long enough."""
    acknowledged = len(history.durable)
    if acknowledged < min_acknowledged:
        return f"{acknowledged} records acknowledged, fewer than {min_acknowledged}"
    read = len(history.durable.keys() & history.there.keys())
    if read < MIN_READ_BACK * acknowledged:
        return f"{read} of {acknowledged} acknowledged records read back"
    if not history.polls:
        return "nothing was polled"
    for group, values in history.seen.items():
        due = history.due(group)
        if len(due & values) < MIN_READ_BACK * len(due):
            return f"{len(values)} records polled by {group}, of {len(due)} acknowledged"
    return ""
