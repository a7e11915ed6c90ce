"""Consumer groups for the commands: state, members, committed offsets, lag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas._arguments import did_you_mean
from barnabas.commands._output import CommandError, amount_of, plain
from barnabas.commands._partitions import led_by, without_leader
from barnabas.commands._topics import end_offsets, start_offsets

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, TopicPartition

    from barnabas.commands._admin import Admin

WITHOUT_MEMBERS = ("Empty", "Dead")  # states without members
UNKNOWN_GROUP = "there is no such group"
OFFSETS = "__consumer_offsets"


class GroupView(NamedTuple):
    """One group and its members."""

    name: str
    state: str
    protocol: str | None
    members: list[dict[str, Any]]

    @property
    def is_active(self) -> bool:
        """Whether the group has members."""
        return self.state not in WITHOUT_MEMBERS


def describe(client: KafkaAdminClient, names: Sequence[str]) -> dict[str, GroupView | str]:
    """Return the groups in the order of `names`; an error message in place of one that cannot be described."""
    described = client.describe_groups(list(dict.fromkeys(names)))
    found: dict[str, GroupView | str] = {}
    for name in dict.fromkeys(names):
        group = described[name]
        if group["group_state"] == "Dead":
            if not committed_offsets(client, name):
                found[name] = UNKNOWN_GROUP if name else f"{UNKNOWN_GROUP}: the name is empty"
                continue
        elif group.get("error"):
            why = plain(group["error"])
            found[name] = "its coordinator is not available" if why in ("", "None") else why
            continue
        members = sorted(group["members"], key=lambda one: (str(one["client_id"]), str(one["member_id"])))
        found[name] = GroupView(name, group["group_state"], group["protocol_data"] or None, members)
    return found


def suggested(client: Admin, found: Mapping[str, GroupView | str]) -> dict[str, GroupView | str]:
    """Return what `describe` found, with the closest known group in the message about an unknown one."""
    if UNKNOWN_GROUP not in [one for one in found.values() if isinstance(one, str)]:
        return dict(found)
    known = [str(one["group_id"]) for one in list_groups(client, client.answering())]
    return {
        name: UNKNOWN_GROUP + did_you_mean(name, known) if isinstance(one, str) and one == UNKNOWN_GROUP else one
        for name, one in found.items()
    }


def list_groups(client: KafkaAdminClient, brokers: Sequence[int]) -> list[dict[str, Any]]:
    """Return the groups that these brokers coordinate; CommandError if some cannot be loaded."""
    from kafka.errors import UnknownError

    try:
        groups: list[dict[str, Any]] = client.list_groups(broker_ids=brokers)
    except UnknownError as error:
        raise CommandError("a broker cannot load some partitions of __consumer_offsets; see its log") from error
    return groups


def not_listed(topics: Iterable[Mapping[str, Any]], away: Iterable[int]) -> str | None:
    """Return why groups are missing from `list_groups`, with the brokers `away`; None if none are."""
    offsets = [topic for topic in topics if topic["name"] == OFFSETS and not topic["error_code"]]
    lost = [*without_leader(offsets), *(name for number in away for name in led_by(offsets, number))]
    partitions = f"{amount_of(len(lost), 'partition')} of {OFFSETS}"
    return f"the groups of {partitions} are unknown: no coordinator answers" if lost else None


def committed_offsets(client: KafkaAdminClient, group: str) -> dict[TopicPartition, int]:
    """Return a group's committed offsets."""
    committed = client.list_group_offsets({group: None})[group]
    return {partition: entry.offset for partition, entry in sorted(committed.items()) if entry.offset >= 0}


def lag_rows(client: KafkaAdminClient, group: GroupView, others: Iterable[TopicPartition] = ()) -> list[dict[str, Any]]:
    """Return a row for each partition that the group is assigned or has committed, and for `others`."""
    committed = committed_offsets(client, group.name)
    owners = {partition: member for member in group.members for partition in assigned(member)}
    partitions = sorted({*committed, *owners, *others})
    existing, gone = _existing(client, partitions)
    starts, ends = start_offsets(client, existing), end_offsets(client, existing)
    rows = []
    for partition in partitions:
        offset, end = committed.get(partition), ends.get(partition)
        owner = owners.get(partition, {})
        # Deleted records cannot be read any more and do not count as lag.
        behind = None if offset is None or end is None else max(end - max(offset, starts[partition]), 0)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": offset,
                "end": end,
                "lag": behind,
                "member": owner.get("member_id"),
                "instance": owner.get("group_instance_id"),
                "client": owner.get("client_id"),
                "host": owner.get("client_host"),
                "deleted": partition in gone,
            }
        )
    return rows


def assigned(member: dict[str, Any]) -> list[TopicPartition]:
    """Return the partitions that a member is assigned."""
    from kafka import TopicPartition

    assignment = member["member_assignment"]
    if not isinstance(assignment, dict):  # no assignment yet, or not a consumer's
        return []
    return [
        TopicPartition(entry["topic"], partition)
        for entry in assignment["assigned_partitions"]
        for partition in entry["partitions"]
    ]


def refuse_active(group: GroupView) -> None:
    """Raise `CommandError` if the group has members: they would go on committing their own offsets."""
    if group.is_active:
        raise CommandError(
            f"{group.name} is {group.state} with {amount_of(len(group.members), 'member')}: stop its consumers first"
        )


def _existing(
    client: KafkaAdminClient, partitions: Sequence[TopicPartition]
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Split partitions into existing ones and those of deleted topics."""
    if not partitions:
        return [], []
    there = {
        (topic["name"], partition["partition_index"])
        for topic in client.describe_topics(sorted({partition.topic for partition in partitions}))
        for partition in topic["partitions"]
    }
    existing = [partition for partition in partitions if tuple(partition) in there]
    return existing, [partition for partition in partitions if tuple(partition) not in there]
