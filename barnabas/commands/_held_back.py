"""What open transactions hold back from a consumer group: pending offsets, and records that its members cannot read.

An offset that a transaction commits is pending until the transaction ends. The one before is shown as committed, and
consumers that require stable offsets wait (KIP-447). The transaction is open in the partition of `__consumer_offsets`
that has the group, where transactions of other groups may be open too. read_committed members read a partition up to
its last stable offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import send
from barnabas.commands._groups import OFFSETS
from barnabas.commands._output import some
from barnabas.commands._topics import choose, last_stable_offsets, partitions_of
from barnabas.commands._transactions import holder, open_rows, open_transactions

if TYPE_CHECKING:
    from kafka import TopicPartition

    from barnabas.commands._admin import Admin

UNSTABLE_OFFSET_COMMIT = 88


def pending_offsets(
    client: Admin, group: str, known: Iterable[TopicPartition]
) -> tuple[list[TopicPartition], list[str]]:
    """Return the partitions with a pending offset of the group, and the names of the transactions that may hold them.

    Without access to `__consumer_offsets`, only the partitions in `known` are looked up, and no transaction is found.
    """
    from kafka import TopicPartition
    from kafka.errors import IncompatibleBrokerVersion

    (offsets,) = choose(client, [OFFSETS])
    if offsets["error_code"]:
        return [], []
    index = partition_of(group, len(offsets["partitions"]))
    (leader,) = [one["leader_id"] for one in offsets["partitions"] if one["partition_index"] == index]
    place = TopicPartition(OFFSETS, index)
    found, problems = open_transactions(client, [place])
    if not found and not problems:
        return [], []
    wanted = {*known, *partitions_of(choose(client, [], internal=False))} if found else {*known}
    try:
        pending = _unstable(client, group, sorted(wanted), leader)
    except IncompatibleBrokerVersion:  # before Kafka 3.0
        return [], []
    if not (pending and found):
        return pending, []
    rows, _ = open_rows(client, [place], client.answering())
    name = f"{OFFSETS}-{index}"
    return pending, [f"{holder(name, row)} ({name}, offset {row['start']})" for row in rows.get(tuple(place), [])]


def held_back(client: Admin, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, str | None]]:
    """Return the last stable offset of partitions with these ends where it is smaller, and the transaction there."""
    stable = last_stable_offsets(client, ends)
    held = [one for one, end in ends.items() if stable[one] < end]
    if not held:
        return {}
    rows, _ = open_rows(client, held, client.answering())
    names = {one: holder(f"{one.topic}-{one.partition}", rows[tuple(one)][0]) for one in held if tuple(one) in rows}
    return {one: (stable[one], names.get(one)) for one in held}


def notes(group: Mapping[str, Any]) -> list[str]:
    """Return lines about what transactions hold back from a described group."""
    pending = [f"{row['topic']}-{row['partition']}" for row in group["partitions"] if row["pending"]]
    lines = []
    if pending:
        holders = some(group["transactions"]) or "an open transaction"
        lines.append(
            f"offsets of {some(pending)} are pending, and COMMITTED is older: consumers wait for the end of {holders}"
        )
    for row in group["partitions"]:
        if row["stable_end"] is not None and row["stable_end"] < row["end"]:
            name = f"{row['topic']}-{row['partition']}"
            lines.append(
                f"{name}: read_committed members wait at offset {row['stable_end']}, before END, for "
                f"{row['holder'] or 'the marker of a transaction'}"
            )
    return lines


def partition_of(group: str, partitions: int) -> int:
    """Return the partition of `__consumer_offsets` that has a group (Kafka: `Utils.abs(groupId.hashCode())`).

    `__transaction_state` has transactional ids in the same way.
    """
    code = 0
    encoded = group.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        code = (31 * code + int.from_bytes(encoded[at : at + 2])) & 0xFFFFFFFF
    code -= (code & 0x80000000) << 1
    return (0 if code == -(2**31) else abs(code)) % partitions


def _unstable(
    client: Admin, group: str, partitions: Sequence[TopicPartition], coordinator: int
) -> list[TopicPartition]:
    """Return those of the partitions whose offset of the group is not stable."""
    from kafka import TopicPartition
    from kafka.protocol.consumer import OffsetFetchRequest

    group_type = OffsetFetchRequest.OffsetFetchRequestGroup
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    topics = [
        group_type.OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in by_topic.items()
    ]
    request = OffsetFetchRequest(
        groups=[group_type(group_id=group, topics=topics)], require_stable=True, min_version=8, max_version=8
    )
    return [
        TopicPartition(topic.name, one.partition_index)
        for found in send(client, request, coordinator).groups
        for topic in found.topics
        for one in topic.partitions
        if one.error_code == UNSTABLE_OFFSET_COMMIT
    ]
