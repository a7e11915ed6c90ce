"""Abort a hanging transaction in one partition, where `barnabas txn hanging` found it.

The leader of the partition writes the abort marker; the coordinator of the transaction takes no part. A transaction
that its coordinator has may still be committed in its other partitions, and its producer goes on writing: it is
refused. `barnabas txn terminate` aborts such a transaction in all its partitions. --force aborts it in this one.

The producer's id and epoch, and the epoch of its coordinator, can be given in place of the start offset. Without
--force they must be those of a transaction that is open in the partition, and of an existing epoch of its coordinator:
a marker with a later epoch would fence the coordinator itself. Brokers before Kafka 3.0 do not describe the producers
of a partition, nor the transactions of a coordinator: give --force.

Coordinators do not say which transactional ids the user may not describe. A transaction that none of them lists may be
a healthy one of such an id, unless --max-transaction-timeout has passed since its latest record: a younger one is
refused. Give the brokers' transaction.max.timeout.ms, unless that is the default, 15 minutes.
"""

from __future__ import annotations

import argparse
import shlex
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import MAX_INT16, MAX_INT32, add_common_options, admin, natural
from barnabas.commands._offsets import duration_ms
from barnabas.commands._output import CommandError, Report, WrongCall, some
from barnabas.commands._topics import choose, closest
from barnabas.commands._transactions import (
    ADMIN_COORDINATOR_EPOCH,
    MAX_TIMEOUT_MS,
    TRANSACTIONS,
    Open,
    age_text,
    coordinated,
    explained,
    may_hang,
    not_listed,
    open_transactions,
    owners,
)

if TYPE_CHECKING:
    from kafka import TopicPartition
    from kafka.admin import AbortTransactionSpec

    from barnabas.commands._admin import Admin

EXAMPLES = """
  barnabas txn abort orders -p 0 --start-offset 1234 --dry-run
  barnabas txn abort orders -p 0 --start-offset 1234
  barnabas txn abort orders -p 0 --producer-id 7 --producer-epoch 0 --coordinator-epoch 3
"""
FORCE = "--force aborts it in this partition alone"
FORCE_MARKER = "--force writes the marker nevertheless"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("-p", "--partition", type=partial(natural, most=MAX_INT32), required=True)
    parser.add_argument(
        "-o",
        "--start-offset",
        type=natural,
        required=True,
        action=_Alternative,
        metavar="N",
        help="the offset of the transaction's first record",
    )
    epoch, most = partial(natural, most=MAX_INT16), partial(natural, most=MAX_INT32)
    help_text = "in place of the start offset, all three:"
    parser.add_argument("--producer-id", type=natural, action=_Alternative, metavar="ID", help=help_text)
    parser.add_argument("--producer-epoch", type=epoch, action=_Alternative, metavar="N")
    parser.add_argument("--coordinator-epoch", type=most, action=_Alternative, metavar="N")
    parser.add_argument(
        "--max-transaction-timeout",
        type=duration_ms,
        default=MAX_TIMEOUT_MS,
        metavar="DURATION",
        help="the largest transaction timeout of any producer: younger transactions are refused "
        f"(default: {MAX_TIMEOUT_MS // 60_000}m)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="abort a transaction too that its coordinator has or may have, or that is not found in the partition",
    )
    parser.add_argument("-d", "--dry-run", action="store_true", help="only print what would be aborted")
    add_common_options(parser)


class _Alternative(argparse.Action):
    """The start offset, or an option of the producer: with one of these, all of them are required in its place."""

    def __call__(
        self, parser: argparse.ArgumentParser, options: argparse.Namespace, values: Any, _: str | None = None
    ) -> None:
        setattr(options, self.dest, values)
        for action in parser._actions:
            if isinstance(action, _Alternative):
                action.required = action.dest != "start_offset" and options.start_offset is None


def run(options: argparse.Namespace) -> int:
    """Abort the transaction."""
    from kafka import TopicPartition
    from kafka.admin import AbortTransactionSpec

    producer = (options.producer_id, options.producer_epoch, options.coordinator_epoch)
    has_producer = producer != (None, None, None)
    if has_producer and options.start_offset is not None:
        raise WrongCall("give either --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch")
    report = Report(options)
    where = TopicPartition(options.topic, options.partition)
    with admin(options) as client:
        one = None if has_producer else _starting_at(client, where, options.start_offset)
        spec = AbortTransactionSpec(where, *producer) if one is None else _aborting(one)
        note = f"producer {spec.producer_id}, epoch {spec.producer_epoch}"
        if not options.force:
            one = one or _open_of(client, spec)
            _check_hanging(client, spec)
            _check_age(one, options.max_transaction_timeout)
            if has_producer:
                _check_coordinator_epoch(client, spec)
        if options.dry_run:
            name = owners(client, client.answering(), [spec.producer_id]).get(spec.producer_id)
            note += f", transactional id {name}" if name else ""
            note += "" if one or _is_open(client, spec) else "; nothing of this producer and epoch is open there"
        else:
            _abort(client, spec)
    report.done(
        "would abort" if options.dry_run else "aborted",
        f"{where.topic}-{where.partition}",
        note,
        producer_id=spec.producer_id,
        producer_epoch=spec.producer_epoch,
        coordinator_epoch=spec.coordinator_epoch,
    )
    return report.end()


def _open_of(client: Admin, spec: AbortTransactionSpec) -> Open:
    """Return the open transaction of the producer in the partition; CommandError if there is none.

    The leader would write the marker nevertheless.
    """
    where = f"{spec.topic_partition.topic}-{spec.topic_partition.partition}"
    found, problems = open_transactions(client, [spec.topic_partition])
    if problems:
        meant = closest(client, spec.topic_partition.topic)
        raise CommandError(f"{problems[0]}{meant or f'; {FORCE_MARKER}'}")
    for one in found:
        if (spec.producer_id, spec.producer_epoch) == (one.producer_id, one.producer_epoch):
            return one
    shown = some([f"producer {one.producer_id}, epoch {one.producer_epoch}, from {one.start}" for one in found])
    raise CommandError(
        f"no open transaction of producer {spec.producer_id}, epoch {spec.producer_epoch}, in {where} "
        f"(open: {shown or 'none'}); {FORCE_MARKER}"
    )


def _is_open(client: Admin, spec: AbortTransactionSpec) -> bool:
    """Return whether the producer has an open transaction in the partition; True if that cannot be known."""
    found, problems = open_transactions(client, [spec.topic_partition])
    producer = (spec.producer_id, spec.producer_epoch)
    return bool(problems) or producer in [(one.producer_id, one.producer_epoch) for one in found]


def _check_coordinator_epoch(client: Admin, spec: AbortTransactionSpec) -> None:
    """Raise CommandError if no coordinator has such an epoch: the leader would write the marker nevertheless."""
    where = f"{spec.topic_partition.topic}-{spec.topic_partition.partition}"
    latest = _latest_coordinator_epoch(client)
    if spec.coordinator_epoch > latest:
        raise CommandError(
            f"{where}: no coordinator has epoch {spec.coordinator_epoch}: the leaders of {TRANSACTIONS} have epochs "
            f"up to {latest}; a marker with a later one would fence the coordinator; {FORCE_MARKER}"
        )


def _latest_coordinator_epoch(client: Admin) -> int:
    """Return the latest epoch of any coordinator: the leader epoch of its partition of `__transaction_state`."""
    (topic,) = choose(client, [TRANSACTIONS])
    epochs = [partition["leader_epoch"] for partition in topic["partitions"]]
    return max(epochs, default=ADMIN_COORDINATOR_EPOCH)


def _check_hanging(client: Admin, spec: AbortTransactionSpec) -> None:
    """Raise CommandError if a coordinator has the transaction in this partition, or if that cannot be known."""
    away = client.away()
    where = f"{spec.topic_partition.topic}-{spec.topic_partition.partition}"
    producer = f"the transaction of producer {spec.producer_id}, epoch {spec.producer_epoch}"
    try:
        found = coordinated(client, client.answering(away), spec.producer_id, spec.topic_partition)
    except CommandError as error:
        raise CommandError(f"{where}: cannot look up {producer}: {error}; {FORCE}") from error
    if found is None:
        if unknown := not_listed(choose(client, [TRANSACTIONS]), away):
            raise CommandError(f"{where}: cannot look up {producer}: {unknown}; {FORCE}")
        return
    name, transaction = found
    state = transaction.state.value
    if state == "Ongoing":
        advice = f"`barnabas txn terminate {shlex.quote(name)}` aborts it in all its partitions"
    else:
        advice = "the markers are being written"
    raise CommandError(
        f"{where}: {producer}, does not hang: broker {transaction.coordinator_id} coordinates it as {name}, {state}; "
        f"{advice}; {FORCE}"
    )


def _check_age(one: Open, max_timeout_ms: int) -> None:
    """Raise CommandError if the transaction, which no coordinator lists, is too young to be called hanging."""
    now_ms = int(time.time() * 1000)
    if not may_hang(one, now_ms, max_timeout_ms):
        raise CommandError(
            f"{one.partition.topic}-{one.partition.partition}: the transaction of producer {one.producer_id}, epoch "
            f"{one.producer_epoch}, may not hang: its latest record is {age_text(now_ms - one.last_ms)} old, and a "
            "producer whose transactional id the user may not describe could still commit it; try again when it has "
            f"had no record for {age_text(max_timeout_ms)} (--max-transaction-timeout); {FORCE}"
        )


def _abort(client: Admin, spec: AbortTransactionSpec) -> None:
    from kafka.errors import BrokerResponseError

    try:
        client.abort_transaction(spec)
    except BrokerResponseError as error:
        where = spec.topic_partition
        raise CommandError(f"{where.topic}-{where.partition}: {explained(error)}") from error


def _aborting(one: Open) -> AbortTransactionSpec:
    """Return what aborts an open transaction."""
    from kafka.admin import AbortTransactionSpec

    epoch = max(one.coordinator_epoch, ADMIN_COORDINATOR_EPOCH)
    return AbortTransactionSpec(one.partition, one.producer_id, one.producer_epoch, epoch)


def _starting_at(client: Admin, where: TopicPartition, start: int) -> Open:
    """Return the transaction that starts at the offset."""
    transactions, problems = open_transactions(client, [where])
    if problems:
        raise CommandError(problems[0] + closest(client, where.topic))
    for one in transactions:
        if one.start == start:
            return one
    starts = f" (open ones start at {some([str(one.start) for one in transactions])})" if transactions else ""
    raise CommandError(f"{where.topic}-{where.partition}: no open transaction starts at offset {start}{starts}")
