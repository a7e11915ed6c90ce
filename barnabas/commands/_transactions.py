"""Transactions for the commands: listed by their coordinators, and open in partitions (KIP-664).

A transaction is open in a partition from its first record there to its marker. A coordinator that has the transaction
writes the marker when the transaction ends. A transaction hangs if its coordinator does not have it, or not with this
partition: nothing will end it, and it holds back the last stable offset.

Coordinators omit the ids that the client may not describe, and do not say so: a transaction that none lists may be a
healthy one. So none without a listed coordinator is called hanging before it `may_hang`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, TypeVar

from barnabas._arguments import did_you_mean
from barnabas.commands._output import CommandError, WrongCall, amount_of, explain, explain_code
from barnabas.commands._partitions import led_by, without_leader
from barnabas.commands._topics import choose

if TYPE_CHECKING:
    from kafka import TopicPartition
    from kafka.admin import PartitionProducerState, TransactionDescription

    from barnabas.commands._admin import Admin

T = TypeVar("T")

TRANSACTIONS = "__transaction_state"
UNKNOWN_ID = "there is no such transactional id"
NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of a transaction in two-phase commit, which only its external coordinator ends (KIP-939)."""
HANGING = "hanging"
"""The state, in place of its coordinator's, of a transaction that its coordinator does not have."""
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence")
UNKNOWN_TOPIC_OR_PARTITION = 3
TOPIC_AUTHORIZATION_FAILED = 29
INVALID_REGULAR_EXPRESSION = 128
MAX_PARTITIONS = 500
"""The most partitions of one DescribeProducers request, as in Kafka's tool."""
MAX_IDS = 500
"""The most transactional ids of one DescribeTransactions request."""
RETRY_S = 0.1
MAX_TIMEOUT_MS = 15 * 60_000
"""The default of `transaction.max.timeout.ms`, after which a coordinator aborts a transaction."""
ADMIN_COORDINATOR_EPOCH = 0
"""Sent for a producer without markers, which has no coordinator epoch: no coordinator has a lower one."""


class Listed(NamedTuple):
    """A transactional id, and the broker that coordinates it."""

    name: str
    coordinator: int
    producer_id: int
    state: str


class Open(NamedTuple):
    """An open transaction of one partition.

    `coordinator_epoch` is that of the producer's latest marker, -1 if it has none; `last_ms` the timestamp of its
    latest batch.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start: int
    last_ms: int


class CoordinatedTransaction(NamedTuple):
    """A transactional id, and its transaction as the coordinator describes it."""

    name: str
    transaction: TransactionDescription


def list_transactions(client: Admin, brokers: Sequence[int], **filters: Any) -> list[Listed]:
    """Return the transactional ids that these brokers coordinate, in order; `filters` are kafka-python's."""
    from kafka.errors import BrokerResponseError

    try:
        listed = retried(client, lambda: client.list_transactions(broker_ids=list(brokers), **filters))
    except BrokerResponseError as error:
        if error.errno == INVALID_REGULAR_EXPRESSION:
            raise WrongCall(f"{filters['transactional_id_pattern']!r} is not a regular expression of RE2") from error
        raise CommandError(explained(error)) from error
    return sorted(
        Listed(one.transactional_id, broker, one.producer_id, one.state.value)
        for broker, transactions in listed.items()
        for one in transactions
    )


def not_listed(topics: Iterable[Mapping[str, Any]], away: Iterable[int]) -> str | None:
    """Return why ids are missing from `list_transactions`, with the brokers `away`; None if none are.

    Ids that the client may not describe are missing too, for which None is returned: nothing tells it.
    """
    state = [topic for topic in topics if topic["name"] == TRANSACTIONS]
    for topic in state:
        if topic["error_code"] == TOPIC_AUTHORIZATION_FAILED:
            return f"the coordinators are unknown: the user lacks DESCRIBE on topic {TRANSACTIONS}"
        if topic["error_code"] not in (0, UNKNOWN_TOPIC_OR_PARTITION):  # without the topic, there is no id
            return f"the coordinators are unknown: {TRANSACTIONS}: {explain_code(topic['error_code'])}"
    lost = [*without_leader(state), *(name for number in away for name in led_by(state, number))]
    partitions = f"{amount_of(len(lost), 'partition')} of {TRANSACTIONS}"
    return f"the transactions of {partitions} are unknown: no coordinator answers" if lost else None


def unknown_without(client: Admin, brokers: Sequence[int]) -> str | None:
    """Return why some transactions are unknown if only these brokers answer; None if they coordinate all."""
    return not_listed(choose(client, [TRANSACTIONS]), sorted(set(client.listed()) - set(brokers)))


def describe(client: Admin, names: Iterable[str]) -> dict[str, TransactionDescription | str]:
    """Return the transactions in the order of `names`; an error message in place of one that cannot be described."""
    wanted = list(dict.fromkeys(names))
    found: dict[str, TransactionDescription | str] = {}
    for first in range(0, len(wanted), MAX_IDS):
        found.update(_describe(client, wanted[first : first + MAX_IDS]))
    return found


def suggested(
    client: Admin, found: Mapping[str, TransactionDescription | str]
) -> dict[str, TransactionDescription | str]:
    """Return what `describe` found, with the closest known id in the message about an unknown one."""
    if UNKNOWN_ID not in [one for one in found.values() if isinstance(one, str)]:
        return dict(found)
    known = [one.name for one in list_transactions(client, client.answering())]
    return {
        name: UNKNOWN_ID + did_you_mean(name, known) if isinstance(one, str) and one == UNKNOWN_ID else one
        for name, one in found.items()
    }


def transactional_id(text: str) -> str:
    """Parse a transactional id."""
    if not text:
        raise argparse.ArgumentTypeError("a transactional id has at least one character")
    return text


def open_transactions(
    client: Admin, partitions: Sequence[TopicPartition], broker: int | None = None
) -> tuple[list[Open], list[str]]:
    """Return the open transactions of partitions, in order, and an error message for each that cannot be described.

    They are those of the replicas of `broker`, or of the leaders.
    """
    found: list[Open] = []
    problems: list[str] = []
    for partition, transactions in _open_in(client, partitions, broker).items():
        if isinstance(transactions, str):
            problems.append(f"{partition.topic}-{partition.partition}: {transactions}")
        else:
            found += transactions
    return sorted(found, key=lambda one: (one.partition, one.start)), problems


def open_rows(
    client: Admin, partitions: Sequence[TopicPartition], brokers: Sequence[int]
) -> tuple[dict[tuple[str, int], list[dict[str, Any]]], list[str]]:
    """Return the open transactions of partitions as rows, the oldest first, and an error message for each that fails.

    A row has the transactional id, the state and the start time if one of these brokers, as coordinator, knows them.
    The state is `HANGING` if all coordinators answer, none has the transaction, and it `may_hang`.
    """
    found, problems = open_transactions(client, partitions)
    if not found:
        return {}, problems
    names = owners(client, brokers, (one.producer_id for one in found))
    described = describe(client, sorted(set(names.values())))
    now_ms = int(time.time() * 1000)
    silent = [one for one in found if may_hang(one, now_ms)]
    hang = set(_hanging(client, silent, names, described)) if not unknown_without(client, brokers) else set()
    rows: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for one in found:
        name = names.get(one.producer_id)
        transaction = described.get(name or "")
        state, started_ms = HANGING if one in hang else None, None
        if _has(transaction, one.partition):
            state, started_ms = transaction.state.value, transaction.transaction_start_time_ms
        rows.setdefault(tuple(one.partition), []).append(
            {
                "transactional_id": name,
                "state": state,
                "producer_id": one.producer_id,
                "epoch": one.producer_epoch,
                "start": one.start,
                "started_ms": started_ms,
                "last_record_ms": one.last_ms,
                "duration_ms": now_ms - (one.last_ms if started_ms is None else started_ms),
            }
        )
    return rows, problems


def may_hang(one: Open, now_ms: int, max_timeout_ms: int = MAX_TIMEOUT_MS) -> bool:
    """Return whether a transaction has had no record for so long that its coordinator would have aborted it."""
    return one.last_ms + max_timeout_ms < now_ms


def owners(client: Admin, brokers: Sequence[int], producer_ids: Iterable[int]) -> dict[int, str]:
    """Return the transactional id of each producer id that one of these brokers, as coordinator, knows."""
    ids = sorted(set(producer_ids))
    if not ids:
        return {}
    return {one.producer_id: one.name for one in list_transactions(client, brokers, producer_id_filters=ids)}


def coordinated(
    client: Admin, brokers: Sequence[int], producer_id: int, partition: TopicPartition
) -> CoordinatedTransaction | None:
    """Return what the coordinator of a producer id has, if that includes the partition; None if none of `brokers` does.

    CommandError if the coordinator cannot describe it.
    """
    for name in owners(client, brokers, [producer_id]).values():
        found = describe(client, [name])[name]
        if isinstance(found, str) and found != UNKNOWN_ID:
            raise CommandError(f"{name}: {found}")
        if _has(found, partition):
            return CoordinatedTransaction(name, found)
    return None


def hanging(client: Admin, brokers: Sequence[int], candidates: Sequence[Open]) -> list[Open]:
    """Return those of the `candidates` whose coordinator does not have them, or not with their partition.

    `brokers` are all coordinators; CommandError if one cannot describe a transaction.
    """
    names = owners(client, brokers, (one.producer_id for one in candidates))
    described = describe(client, sorted(set(names.values())))
    for name, found in described.items():
        if isinstance(found, str) and found != UNKNOWN_ID:
            raise CommandError(f"{name}: {found}")

    return _hanging(client, candidates, names, described)


def abort_command(topic: str, partition: int, start: int) -> str:
    """Return the command that aborts a hanging transaction, quoted."""
    return f"`barnabas txn abort {topic} -p {partition} -o {start}`"


def holder(partition: str, transaction: Mapping[str, Any]) -> str:
    """Return the name of an open transaction of a partition, a row of `open_rows`; if it hangs, with what aborts it."""
    name, producer = transaction["transactional_id"], f"producer {transaction['producer_id']}"
    if transaction["state"] != HANGING:
        return f"the transaction of {name or producer}"
    topic, _, index = partition.rpartition("-")
    return (
        f"the hanging transaction of {producer}, which {abort_command(topic, int(index), transaction['start'])} aborts"
    )


def retried(client: Admin, request: Callable[[], T]) -> T:
    """Return the result of a request; repeat it while a coordinator is loading or being elected, until the timeout."""
    from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError

    ends = time.monotonic() + client.config["bootstrap_timeout_ms"] / 1000
    while True:
        try:
            return request()
        except (CoordinatorLoadInProgressError, CoordinatorNotAvailableError):
            if time.monotonic() > ends:
                raise
        time.sleep(RETRY_S)


def explained(error: Exception) -> str:
    """Return a one-line message for a Kafka client error: that of the code alone if a broker sent one.

    kafka-python's own text has the whole response.
    """
    from kafka.errors import BrokerResponseError, IncompatibleBrokerVersion

    if isinstance(error, BrokerResponseError) and not isinstance(error, IncompatibleBrokerVersion):
        return explain_code(error.errno)
    return explain(error) or str(error)


def time_text(time_ms: int) -> str | None:
    """Return a time in UTC, as `2026-01-02T03:04:05Z`; None for a negative one, which is none."""
    return None if time_ms < 0 else f"{datetime.fromtimestamp(time_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def age_text(duration_ms: int | None) -> str | None:
    """Return a duration in its two largest units, rounded down: "1d2h", "5m3s", "0s"; None for None."""
    if duration_ms is None:
        return None
    left = max(duration_ms, 0) // 1000
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number or parts:
            parts.append(f"{number}{unit}")
    return "".join(parts[:2]) or "0s"


def _has(
    transaction: TransactionDescription | str | None, partition: TopicPartition
) -> TypeGuard[TransactionDescription]:
    """Return whether a coordinator has a transaction with this partition."""
    return not (transaction is None or isinstance(transaction, str)) and partition in transaction.topic_partitions


def _hanging(
    client: Admin,
    candidates: Sequence[Open],
    names: Mapping[int, str],
    described: Mapping[str, TransactionDescription | str],
) -> list[Open]:
    """Return the hanging ones; `names` are those of producer ids, whose transactions are `described`.

    A transaction that has ended before it was described is not described any more. So those that are not are looked up
    in their partitions again: they hang if they are still open there.
    """
    missing = [one for one in candidates if _is_missing(described.get(names.get(one.producer_id, "")), one.partition)]
    if not missing:
        return []
    now = _open_in(client, sorted({one.partition for one in missing}), None)
    return [one for one in missing if _may_be_open(one, now[one.partition])]


def _describe(client: Admin, names: Sequence[str]) -> dict[str, TransactionDescription | str]:
    """Return the transactions of these ids; kafka-python raises the first error, so then each by itself."""
    from kafka.errors import KafkaError, TransactionalIdNotFoundError

    try:
        return dict(retried(client, lambda: client.describe_transactions(names)))
    except TransactionalIdNotFoundError:
        if len(names) == 1:
            return {names[0]: UNKNOWN_ID}
    except KafkaError as error:
        if len(names) == 1:
            return {names[0]: explained(error)}
    return {name: one for each in names for name, one in _describe(client, [each]).items()}


def _is_missing(transaction: TransactionDescription | str | None, partition: TopicPartition) -> bool:
    """Return whether the coordinator does not have a transaction with this partition; False if that is unknown."""
    return transaction in (None, UNKNOWN_ID) or not (isinstance(transaction, str) or _has(transaction, partition))


def _may_be_open(one: Open, now: list[Open] | str) -> bool:
    """Return whether a transaction is among those that are open in its partition now; True if these are unknown."""
    return isinstance(now, str) or (one.producer_id, one.start) in [(each.producer_id, each.start) for each in now]


def _open_in(
    client: Admin, partitions: Sequence[TopicPartition], broker: int | None
) -> dict[TopicPartition, list[Open] | str]:
    """Return the open transactions of each partition, or an error message."""
    found: dict[TopicPartition, list[Open] | str] = {}
    for first in range(0, len(partitions), MAX_PARTITIONS):
        for partition, state in _producers(client, partitions[first : first + MAX_PARTITIONS], broker).items():
            found[partition] = state if isinstance(state, str) else [
                Open(
                    partition,
                    one.producer_id,
                    one.producer_epoch,
                    one.coordinator_epoch,
                    one.current_transaction_start_offset,
                    one.last_timestamp,
                )
                for one in state.active_producers
                if one.current_transaction_start_offset >= 0
            ]  # fmt: skip
    return found


def _producers(
    client: Admin, partitions: Sequence[TopicPartition], broker: int | None
) -> dict[TopicPartition, PartitionProducerState | str]:
    """Return the producers of partitions; kafka-python raises the first error, so then each by itself."""
    from kafka.errors import KafkaError

    try:
        return dict(client.describe_producers(partitions, broker_id=broker))
    except KafkaError as error:
        if len(partitions) == 1:
            return {partitions[0]: explained(error)}
    return {one: state for each in partitions for one, state in _producers(client, [each], broker).items()}
