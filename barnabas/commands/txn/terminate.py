"""Abort the open transactions of transactional ids at their coordinators, in all partitions, and fence their producers.

For transactions without a timeout that their external coordinator will never end (KIP-939, two-phase commit), and for
producers that must not go on. A producer of the same id is started, and nothing is sent with it. A producer that the
application starts during the command may be fenced too.

A transaction of the producer that its coordinator does not have hangs, and stays open: it is reported, with the command
that aborts it, and the exit status is 1. If the coordinator fails meanwhile, it is reported whether the transaction was
aborted. The command may be repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import time
from typing import TYPE_CHECKING, NamedTuple

from barnabas.commands._client import add_common_options, admin, send
from barnabas.commands._held_back import partition_of
from barnabas.commands._output import CommandError, Report, WrongCall, amount_of, complain, explain_code
from barnabas.commands._topics import choose, partitions_of
from barnabas.commands._transactions import (
    MAX_TIMEOUT_MS,
    RETRY_S,
    TRANSACTIONS,
    UNKNOWN_ID,
    abort_command,
    age_text,
    describe,
    explained,
    hanging,
    may_hang,
    open_transactions,
    suggested,
    transactional_id,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka.admin import TransactionDescription

    from barnabas.commands._admin import Admin

EXAMPLES = """
  barnabas txn terminate payments-1 --dry-run
  barnabas txn terminate payments-1
"""
FENCE_S = 10.0
"""How long the coordinator is given to end the transaction; after --timeout, what it waits for is printed."""
TRANSACTION_TIMEOUT_MS = 60_000
"""The largest transaction timeout of the producer that is started: brokers refuse one above their maximum."""
MAX_VERSION = 4
"""Of InitProducerId: later versions have fields of two-phase commit."""
CONCURRENT_TRANSACTIONS = 51
DECIDED = {"PrepareCommit": "commit", "PrepareAbort": "abort"}
ABORTING = ("PrepareAbort", "PrepareEpochFence")
COMMITTED = ("PrepareCommit", "CompleteCommit")


class Fencing(NamedTuple):
    """The result of fencing an id: an error message, or None, and the transaction that was aborted, if any."""

    failure: str | None
    aborted: TransactionDescription | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("transactional_id", type=transactional_id, nargs="+", metavar="TRANSACTIONAL-ID")
    parser.add_argument("-d", "--dry-run", action="store_true", help="only print what would be terminated")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Terminate each; return 1 if one does not exist, or its transaction is being ended already."""
    from kafka.errors import KafkaError

    report = Report(options)
    with admin(options) as client:
        found = suggested(client, describe(client, options.transactional_id))
    for name, transaction in found.items():
        if isinstance(transaction, str):
            unknown = transaction.startswith(UNKNOWN_ID)
            report.failed(name, transaction if unknown else f"{transaction}; nothing was terminated: {_again(name)}")
        elif decided := DECIDED.get(transaction.state.value):
            report.failed(name, f"its {decided} is decided; the markers are being written")
        elif options.dry_run:
            _report_success(report, name, transaction, transaction if _is_open(transaction) else None, options)
        else:
            try:
                fencing = _fence(name, transaction, options)
                if fencing.failure is not None:
                    _report_failure(report, name, transaction, fencing, options)
            except KeyboardInterrupt:
                why = f"interrupted; it is unknown whether it was terminated: {_look(name)} shows its state"
                with contextlib.suppress(OSError):  # a closed terminal
                    report.failed(name, why)
                    report.end()
                raise
            if fencing.failure is None:
                _report_success(report, name, transaction, fencing.aborted, options)
    producers = {one.producer_id: name for name, one in found.items() if not isinstance(one, str)}
    try:
        _report_hanging(report, producers, options)
    except (CommandError, KafkaError) as error:
        why = f"cannot look for its hanging transactions: {explained(error)}; `barnabas txn hanging` finds them"
        report.failed(", ".join(producers.values()), why)
    return report.end()


def _again(name: str) -> str:
    return f"run `barnabas txn terminate {shlex.quote(name)}` again"


def _look(name: str) -> str:
    return f"`barnabas txn describe {shlex.quote(name)}`"


def _report_failure(
    report: Report, name: str, before: TransactionDescription, fencing: Fencing, options: argparse.Namespace
) -> None:
    """Report whether a transaction was terminated though its coordinator, or the way to it, failed meanwhile."""
    from kafka.errors import KafkaError

    try:
        with admin(options) as client:
            now = describe(client, [name])[name]
    except (CommandError, KafkaError) as error:
        now = str(error)
    failure = fencing.failure
    if isinstance(now, str):
        report.failed(name, f"{failure}; it is unknown whether it was terminated: {_again(name)}, which does no harm")
    elif _state(now) == _state(before):
        so_far = f"nothing was terminated so far, but may still be ({_look(name)} shows it)"
        report.failed(name, f"{failure}; {so_far}: {_again(name)}")
    elif decided := DECIDED.get(now.state.value):
        report.failed(name, f"{failure}; its {decided} is decided, {_look(name)} shows when the markers are written")
    else:
        _report_success(report, name, before, _aborted(before, now, fencing.aborted), options)


def _state(transaction: TransactionDescription) -> tuple[str, int, int]:
    return transaction.state.value, transaction.producer_id, transaction.producer_epoch


def _is_open(transaction: TransactionDescription) -> bool:
    return bool(transaction.state.value == "Ongoing")


def _report_success(
    report: Report,
    name: str,
    before: TransactionDescription,
    aborted: TransactionDescription | None,
    options: argparse.Namespace,
) -> None:
    """Report the producer, and the transaction that was aborted, or would be: it may have begun after `before`."""
    partitions = len(aborted.topic_partitions) if aborted else 0
    if aborted is None:
        what = "its transaction ended meanwhile" if _is_open(before) else "no open transaction"
    elif _is_open(before):
        what = f"open in {amount_of(partitions, 'partition')}"
    else:
        where = f", open in {amount_of(partitions, 'partition')}" if partitions else ""
        what = f"a transaction that began meanwhile{where}"
    report.done(
        "would terminate" if options.dry_run else "terminated",
        name,
        f"producer {before.producer_id}, epoch {before.producer_epoch}, {what}",
        producer_id=before.producer_id,
        producer_epoch=before.producer_epoch,
        partitions=partitions,
        aborted=aborted is not None,
    )


def _report_hanging(report: Report, names: Mapping[int, str], options: argparse.Namespace) -> None:
    """Report the hanging transactions of these producers, which stay open: their coordinator does not have them."""
    if not names:
        return
    with admin(options) as client:
        brokers = client.answering()
        found, _ = open_transactions(client, partitions_of(choose(client, [])))
        for one in hanging(client, brokers, [each for each in found if each.producer_id in names]):
            topic, partition = one.partition
            is_old = may_hang(one, int(time.time() * 1000))
            when = "" if is_old else f" when it has had no record for {age_text(MAX_TIMEOUT_MS)}"
            report.failed(
                names[one.producer_id],
                f"producer {one.producer_id} has a hanging transaction in {topic}-{partition}, which its coordinator "
                f"does not have: {abort_command(topic, partition, one.start)} aborts it{when}",
            )


def _fence(name: str, before: TransactionDescription, options: argparse.Namespace) -> Fencing:
    """Start a producer of this id, which aborts the transaction of the one before; repeat retriable errors.

    The transaction that is aborted may have begun, and `before` may have ended, since the id was described.
    """
    from kafka.errors import KafkaError

    begin_s = time.monotonic()
    failure, aborted, last, is_reported = "no response", None, before, False
    try:
        with admin(options) as client:
            while True:
                left_s = begin_s + FENCE_S - time.monotonic()
                try:
                    code = _init_producer_id(client, name, last, left_s if is_reported else options.timeout)
                    if not code:
                        return Fencing(None, aborted)
                    failure = f"broker {last.coordinator_id}, its coordinator: {explain_code(code).rstrip('.')}"
                    if not _is_retriable(code):
                        return Fencing(failure, aborted)
                    is_busy = code == CONCURRENT_TRANSACTIONS
                except (CommandError, KafkaError) as error:
                    failure = explained(error).rstrip(".")
                    is_busy = False
                if not is_reported and time.monotonic() >= begin_s + options.timeout:
                    is_reported = True
                    waits = f"waiting for broker {last.coordinator_id}, its coordinator, to abort the transaction"
                    complain(
                        options.command, f"{name}: {waits}, up to {FENCE_S:g} s ({failure}{_missing(client, name)})"
                    )
                if time.monotonic() >= begin_s + FENCE_S:
                    return Fencing(failure + _missing(client, name), aborted)
                now = _described(client, name)
                if isinstance(now, str):
                    failure = now
                else:
                    aborted = _aborted(last, now, aborted, is_busy=is_busy)
                    last = now
                time.sleep(RETRY_S)
    except WrongCall:
        raise
    except CommandError as error:
        return Fencing(str(error), aborted)


def _described(client: Admin, name: str) -> TransactionDescription | str:
    try:
        return describe(client, [name])[name]
    except CommandError as error:
        return str(error)


def _init_producer_id(client: Admin, name: str, last: TransactionDescription, timeout_s: float) -> int:
    """Send InitProducerId to the coordinator; return the error code."""
    from kafka.protocol.producer import InitProducerIdRequest

    request = InitProducerIdRequest(
        transactional_id=name,
        transaction_timeout_ms=min(TRANSACTION_TIMEOUT_MS, last.transaction_timeout_ms),
        producer_id=-1,
        producer_epoch=-1,
        max_version=MAX_VERSION,
    )
    return int(send(client, request, last.coordinator_id, max(timeout_s, RETRY_S) * 1000).error_code)


def _is_retriable(code: int) -> bool:
    from kafka.errors import RetriableError, for_code

    return issubclass(for_code(code), RetriableError)


def _aborted(
    last: TransactionDescription,
    now: TransactionDescription,
    known: TransactionDescription | None,
    *,
    is_busy: bool = False,
) -> TransactionDescription | None:
    """Return the transaction that is or was aborted between two descriptions, else the one `known` before.

    `is_busy` if the coordinator responded between them that it is ending a transaction of the id.
    """
    state = now.state.value
    if state in ABORTING or (is_busy and state == "Ongoing"):
        return now if now.topic_partitions else last
    if state in COMMITTED and _state(now) != _state(last):
        return None
    if known is None and _state(now) != _state(last) and (is_busy or _is_open(last)):
        return last
    return known


def _missing(client: Admin, name: str) -> str:
    """Return how many replicas of the coordinator's partition are in sync, if not all are; "" if unknown."""
    from kafka.errors import KafkaError

    try:
        away = client.away()
        (topic,) = choose(client, [TRANSACTIONS])
        index = partition_of(name, len(topic["partitions"]))
        (partition,) = [one for one in topic["partitions"] if one["partition_index"] == index]
    except (CommandError, KafkaError, ValueError, ZeroDivisionError):
        return ""
    replicas = partition["replica_nodes"]
    in_sync = [number for number in partition["isr_nodes"] if number not in away]
    if len(in_sync) == len(replicas):
        return ""
    return (
        f"; {len(in_sync)} of the {amount_of(len(replicas), 'replica')} of {TRANSACTIONS}-{index} in sync: below "
        "min.insync.replicas, the coordinator cannot write"
    )
