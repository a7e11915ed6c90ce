"""The anomalies of transactions; `checker.py` lists them.

A write-read edge leads from the transaction that sent a record to a transaction in which it was read. A record is read
only after its transaction's commit was requested, so edges follow time, and a cycle of them shows that the isolation is
broken (G1c), also when each single read might be explained by a late event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from tests.chaos.history.index import Anomaly, History, Transaction, topic_of

MIN_COMMITTED = 20
MIN_PROCESSED = 0.9


def precommitted_reads(history: History) -> Iterator[Anomaly]:
    for at, poll in history.polls:
        for offset, value in poll.records:
            transaction = history.transaction_of(value)
            if transaction is None or history.is_aborted(value):
                continue
            if history.commits.get(transaction, at) >= at:
                yield Anomaly("precommitted read", f"{value} at {poll.partition}@{offset} was not committed yet")
    for value in sorted(history.there):
        transaction = history.transaction_of(value)
        if transaction is not None and transaction not in history.commits and not history.is_aborted(value):
            yield Anomaly("precommitted read", f"{value} at {history.where(value)} was never to be committed")


def intermediate_reads(history: History) -> Iterator[Anomaly]:
    """Yield the transactions of which a part is stored at the end."""
    for transaction, sends in history.transactions.items():
        kept = [send for send in sends if send.value not in history.failed]
        stored = sum(send.value in history.there for send in kept)
        missing = [send for send in kept if send.value not in history.there and send.partition in history.complete]
        if missing and (stored or transaction in history.committed):
            how = "was committed" if transaction in history.committed else "may be committed"
            text = f"{stored} of {len(kept)} records of {transaction}, which {how}: without {missing[0].value}"
            yield Anomaly("intermediate read", text)


def broken_pipelines(history: History) -> Iterator[Anomaly]:
    """Yield the inputs of pipelines whose outputs do not agree with the committed offsets of the group."""
    outputs = _outputs(history)
    is_whole = history.complete >= history.final.keys()
    for group, offsets in history.offsets.items():
        for value, (partition, offset) in _inputs(history, group):
            made = outputs[group, value]
            passed = offset < offsets.get(partition, 0)
            where = f"{value} at {partition}@{offset}"
            if len(made) > 1:
                yield Anomaly("broken read-process-write", f"{group} made {', '.join(made)} of {where}")
            elif passed and not made and is_whole:
                yield Anomaly("broken read-process-write", f"{group} committed an offset past {where}, and no output")
            elif made and not passed:
                yield Anomaly("broken read-process-write", f"{group} committed {made[0]}, and no offset past {where}")
    for value in sorted(history.there):
        send = history.sends.get(value)
        if send is not None and send.source and send.source not in history.there and is_whole:
            text = f"{value} was made of {send.source} at {history.where(send.source)}, which is not stored"
            yield Anomaly("broken read-process-write", text)


def _outputs(history: History) -> dict[tuple[str, str], list[str]]:
    """Return the stored outputs of each group, by input."""
    outputs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for value in sorted(history.there):
        send = history.sends.get(value)
        if send is not None and send.source:
            outputs[history.members.get(send.process, ""), send.source].append(value)
    return outputs


def _inputs(history: History, group: str) -> list[tuple[str, tuple[str, int]]]:
    topics = history.topics[group]
    return [(value, place) for value, place in history.there.items() if topic_of(place[0]) in topics]


def write_read_cycles(history: History) -> Iterator[Anomaly]:
    """Yield disjoint cycles until none is left."""
    read: dict[Transaction, dict[Transaction, str]] = defaultdict(dict)
    for _, poll in history.polls:
        if not poll.transaction:
            continue
        reader = Transaction(poll.process, poll.transaction)
        for _, value in poll.records:
            writer = history.transaction_of(value)
            if writer is not None and writer != reader:
                read[reader].setdefault(writer, value)
    while cycle := _cycle(read):
        path = "".join(f"{writer} -({read[reader][writer]})-> " for writer, reader in pairwise(cycle))
        yield Anomaly("write-read cycle", f"{path}{cycle[0]}")
        for reader in set(cycle):
            del read[reader]


def _cycle(read: Mapping[Transaction, Iterable[Transaction]]) -> list[Transaction]:
    """Return a cycle, with its first transaction again at its end; empty if there is none."""
    try:
        TopologicalSorter(read).prepare()
    except CycleError as error:
        cycle: list[Transaction] = error.args[1]
        return cycle
    return []


def too_few_transactions(history: History) -> str:
    """Return why the transactions of a history are too few for a verdict; empty if there are none, or enough."""
    if history.transactions and len(history.committed) < MIN_COMMITTED:
        return f"{len(history.committed)} transactions committed, fewer than {MIN_COMMITTED}"
    if history.transactions and not history.aborted:
        return "no transaction was aborted"
    outputs = _outputs(history)
    for group in history.offsets:
        inputs = _inputs(history, group)
        processed = sum(bool(outputs[group, value]) for value, _ in inputs)
        if processed < MIN_PROCESSED * len(inputs) or not inputs:
            return f"{processed} of {len(inputs)} inputs processed by {group}"
    return ""
