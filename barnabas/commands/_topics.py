"""Topics as the commands see them: chosen by name or by pattern, with the offsets of their partitions."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from barnabas.commands._output import WrongCall

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, TopicPartition

UNKNOWN_TOPIC = "there is no such topic"
NO_MATCH = "no topic matches"


def is_pattern(name: str) -> bool:
    """Say whether a name is a regular expression: no topic's name can begin so."""
    return name.startswith("^")


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern that the user gave."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise WrongCall(f"{pattern!r} is not a regular expression:  {error}") from error


def choose(client: KafkaAdminClient, names: Sequence[str], internal: bool = True) -> list[dict[str, Any]]:
    """Describe the topics of these names, and those that match the patterns among them; all of them if there are none.

    A topic that does not exist has an `error_code`. Patterns leave out internal topics, all of them do where
    `internal` is false.
    """
    patterns = [compiled(name) for name in names if is_pattern(name)]
    plain = dict.fromkeys(name for name in names if not is_pattern(name))
    found: dict[str, dict[str, Any]] = {}
    if plain:
        found = {topic["name"]: topic for topic in client.describe_topics(list(plain))}
    if patterns or not names:
        for topic in client.describe_topics(None):
            wanted = any(pattern.match(topic["name"]) for pattern in patterns) and not topic["is_internal"]
            if wanted or (not names and (internal or not topic["is_internal"])):
                found.setdefault(topic["name"], topic)
    order = {name: place for place, name in enumerate(plain)}
    return sorted(found.values(), key=lambda topic: (order.get(topic["name"], len(order)), topic["name"]))


def unmatched(names: Iterable[str], topics: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the patterns among `names` that none of these topics matches."""
    found = [str(topic["name"]) for topic in topics]
    return [name for name in names if is_pattern(name) and not any(map(compiled(name).match, found))]


def partitions_of(topics: Iterable[Mapping[str, Any]]) -> list[TopicPartition]:
    """Return every partition of described topics, in order."""
    from kafka import TopicPartition

    return [
        TopicPartition(topic["name"], index)
        for topic in topics
        for index in sorted(partition["partition_index"] for partition in topic["partitions"])
    ]


def start_offsets(client: KafkaAdminClient, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offset of the first record of each partition."""
    from kafka.admin import OffsetSpec

    return _offsets(client, partitions, OffsetSpec.EARLIEST)


def end_offsets(client: KafkaAdminClient, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the high watermark of each partition."""
    from kafka.admin import OffsetSpec

    return _offsets(client, partitions, OffsetSpec.LATEST)


def offsets_at(
    client: KafkaAdminClient, partitions: Iterable[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """Return the offset of the first record of this time or later; the partition's end where there is none."""
    partitions = list(partitions)
    found = _offsets(client, partitions, timestamp_ms)
    ends = end_offsets(client, [partition for partition, offset in found.items() if offset < 0])
    return {**found, **ends}


def uuid_text(uuid: Any) -> str:
    """Return the id of a topic or a directory as Kafka writes it."""
    return base64.urlsafe_b64encode(UUID(str(uuid)).bytes).decode().rstrip("=")


def _offsets(client: KafkaAdminClient, partitions: Iterable[TopicPartition], which: Any) -> dict[TopicPartition, int]:
    asked = dict.fromkeys(partitions, which)
    if not asked:
        return {}
    return {partition: answer.offset for partition, answer in client.list_partition_offsets(asked).items()}
