"""The anomalies of records, whether sent in transactions or not; `checker.py` lists them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.chaos.history.index import Anomaly, History, Place


def lost_writes(history: History) -> Iterator[Anomaly]:
    there = {(partition, value) for partition, records in history.final.items() for value in records.values()}
    known = {(partition, value) for value, (partition, _) in history.durable.items()}
    known |= {(poll.partition, value) for _, poll in history.polls for _, value in poll.records}
    for partition, value in sorted(known - there):
        offsets = [offset for where, offset in history.places[value] if where == partition]
        passed = offsets and min(offsets) < max(history.final[partition], default=-1)
        if (partition in history.complete or passed) and not history.is_aborted(value):
            how = "acknowledged" if value in history.durable else "read"
            yield Anomaly("lost write", f"{value} was {how} at {history.where(value)} of {partition}, and is gone")


def aborted_reads(history: History) -> Iterator[Anomaly]:
    read = {value for _, poll in history.polls for _, value in poll.records} | history.there.keys()
    for value in sorted(filter(history.is_aborted, read)):
        yield Anomaly("aborted read", f"{value} at {history.where(value)} had failed, or was aborted")


def duplicates(history: History) -> Iterator[Anomaly]:
    for value, places in history.places.items():
        send = history.sends.get(value)
        if len(places) > 1 and send is not None and send.process in history.idempotent:
            yield Anomaly("duplicate", f"{value} is at {history.where(value)}")


def inconsistent_offsets(history: History) -> Iterator[Anomaly]:
    for (partition, offset), values in history.records.items():
        if len(values) > 1:
            yield Anomaly("inconsistent offsets", f"{partition}@{offset} holds {', '.join(sorted(values))}")


def unsent_reads(history: History) -> Iterator[Anomaly]:
    for value in sorted(history.places.keys() - history.sends.keys()):
        yield Anomaly("unsent read", f"{value!r} at {history.where(value)} was never sent")


def polls_out_of_order(history: History) -> Iterator[Anomaly]:
    for (process, _, partition), records in history.runs.items():
        for (before, _), (after, _) in pairwise(records):
            if after <= before:
                yield Anomaly("non-monotonic poll", f"{process} was given {partition}@{after} after @{before}")
            missing = [offset for offset in range(before + 1, after) if offset in history.final[partition]]
            if missing:
                yield Anomaly("skipped poll", f"{process} was led past {partition}@{missing[0]} to @{after}")


def sends_out_of_order(history: History) -> Iterator[Anomaly]:
    for (process, partition), values in history.sent.items():
        if process not in history.idempotent:
            continue
        places = ((value, _place(history, value)) for value in values)
        known = [(value, offset) for value, (where, offset) in places if where == partition and offset >= 0]
        for (first, before), (second, after) in pairwise(known):
            if after <= before:
                text = f"{process} sent {first} before {second}, which is at {partition}@{after}, before @{before}"
                yield Anomaly("non-monotonic send", text)


def _place(history: History, value: str) -> Place:
    """Return where a record was acknowledged, or read back if its offset is unknown; offset -1: neither is known."""
    place = history.acknowledged.get(value, ("", -1))
    acknowledged, offset = place
    return history.there.get(value, place) if acknowledged and offset < 0 else place


def unseen(history: History) -> Iterator[Anomaly]:
    for group, values in history.seen.items():
        for value in sorted((history.due(group) & history.there.keys()) - values):
            yield Anomaly("unseen", f"{value} at {history.where(value)} was never given to {group}")
