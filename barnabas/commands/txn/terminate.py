"""Abort the open transactions of transactional ids at their coordinators, in all partitions, and fence their producers.

For transactions without a timeout that their external coordinator will never end (KIP-939, two-phase commit), and for
producers that must not go on. A producer of the same id is started, and nothing is sent with it.

A transaction of the producer that its coordinator does not have hangs, and stays open: it is reported, with the command
that aborts it, and the exit status is 1. If the coordinator fails meanwhile, it is reported whether the transaction was
aborted. The command may be repeated.
"""

from __future__ import annotations

import argparse
import shlex
import time
from typing import TYPE_CHECKING

from barnabas.commands._client import add_common_options, admin, closing, connect
from barnabas.commands._output import CommandError, Report, WrongCall, amount_of
from barnabas.commands._topics import choose, partitions_of
from barnabas.commands._transactions import (
    MAX_TIMEOUT_MS,
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

EXAMPLES = """
  barnabas txn terminate payments-1 --dry-run
  barnabas txn terminate payments-1
"""
FENCE_MS = 10_000
"""How long one producer waits for its id, of which there are `ATTEMPTS`."""
ATTEMPTS = 2
DECIDED = {"PrepareCommit": "commit", "PrepareAbort": "abort"}


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
        elif options.dry_run or not (failure := _fence(name, options)):
            _report_success(report, name, transaction, options)
        else:
            _report_failure(report, name, transaction, failure, options)
    producers = {one.producer_id: name for name, one in found.items() if not isinstance(one, str)}
    try:
        _report_hanging(report, producers, options)
    except (CommandError, KafkaError) as error:
        why = str(error) if isinstance(error, CommandError) else explained(error)
        names = ", ".join(producers.values())
        report.failed(names, f"cannot look for its hanging transactions: {why}; `barnabas txn hanging` finds them")
    return report.end()


def _again(name: str) -> str:
    return f"run `barnabas txn terminate {shlex.quote(name)}` again"


def _report_failure(
    report: Report, name: str, before: TransactionDescription, failure: str, options: argparse.Namespace
) -> None:
    """Report whether a transaction was terminated though its coordinator, or the way to it, failed meanwhile."""
    from kafka.errors import KafkaError

    try:
        with admin(options) as client:
            now = describe(client, [name])[name]
    except (CommandError, KafkaError) as error:
        now = str(error)
    if isinstance(now, str):
        report.failed(name, f"{failure}; it is unknown whether it was terminated: {_again(name)}, which does no harm")
    elif _state(now) == _state(before):
        report.failed(name, f"{failure}; nothing was terminated: {_again(name)}")
    else:
        _report_success(report, name, before, options)


def _state(transaction: TransactionDescription) -> tuple[str, int, int]:
    return transaction.state.value, transaction.producer_id, transaction.producer_epoch


def _report_success(
    report: Report, name: str, transaction: TransactionDescription, options: argparse.Namespace
) -> None:
    is_open = transaction.state.value == "Ongoing"
    what = f"open in {amount_of(len(transaction.topic_partitions), 'partition')}" if is_open else "no open transaction"
    report.done(
        "would terminate" if options.dry_run else "terminated",
        name,
        f"producer {transaction.producer_id}, epoch {transaction.producer_epoch}, {what}",
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partitions=len(transaction.topic_partitions),
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


def _fence(name: str, options: argparse.Namespace) -> str | None:
    """Start a producer of this id, which aborts the transaction of the one before; return an error message or None.

    kafka-python 3.0.12 loses a request to a coordinator whose address refuses connections: another producer finds the
    next coordinator.
    """
    from kafka import KafkaProducer
    from kafka.errors import KafkaError, KafkaTimeoutError

    failure = ""
    for _ in range(ATTEMPTS):
        try:
            with closing(connect(KafkaProducer, options, transactional_id=name, max_block_ms=FENCE_MS)) as producer:
                producer.init_transactions()
        except KafkaTimeoutError as error:
            failure = explained(error)
        except KafkaError as error:
            return explained(error)
        except WrongCall:
            raise
        except CommandError as error:
            return str(error)
        else:
            return None
    return failure
