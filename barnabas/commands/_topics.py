"""Topics for the commands: selected by name or pattern, with the offsets of their partitions."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from barnabas._arguments import did_you_mean
from barnabas.commands._output import WrongCall

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, TopicPartition

UNKNOWN_TOPIC = "there is no such topic"
NO_MATCH = "no topic matches"


def is_pattern(name: str) -> bool:
    """Return whether a name is a regular expression: topic names cannot start with "^"."""
    return name.startswith("^")


def compiled(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern; WrongCall if it is invalid."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise WrongCall(f"{pattern!r} is not a regular expression:  {error}") from error


def choose(client: KafkaAdminClient, names: Sequence[str], internal: bool = True) -> list[dict[str, Any]]:
    """Return the descriptions of topics by name and pattern; of all topics if `names` is empty.

    A topic that does not exist has an `error_code`. Patterns exclude internal topics; so does an empty `names` if
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
    """Return the patterns among `names` that match none of these topics."""
    found = [str(topic["name"]) for topic in topics]
    return [name for name in names if is_pattern(name) and not any(map(compiled(name).match, found))]


def closest(client: KafkaAdminClient, name: str) -> str:
    """Return "; did you mean X?" for the topic whose name is closest to that of a missing one, or "" if none is."""
    known = [topic["name"] for topic in client.describe_topics(None)]
    return "" if name in known else did_you_mean(name, known)


def unknown_topic(client: KafkaAdminClient, name: str) -> str:
    """Return the error message for a missing topic, with the closest name."""
    return UNKNOWN_TOPIC + or_hidden(client) + closest(client, name)


def or_hidden(client: Any) -> str:
    """Return that a missing topic may only be hidden from the user, if the connection is secured."""
    return "" if client.config["security_protocol"] == "PLAINTEXT" else ", or this user may not describe it"


def missing(client: KafkaAdminClient, names: Iterable[str], topics: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return an error message for each name and pattern in `names` without a topic among the descriptions `topics`."""
    topics = list(topics)
    unknown = [f"{topic['name']}: {unknown_topic(client, topic['name'])}" for topic in topics if topic["error_code"]]
    there = [topic for topic in topics if not topic["error_code"]]
    return [*unknown, *(f"{pattern}: {NO_MATCH}" for pattern in unmatched(names, there))]


def partitions_of(topics: Iterable[Mapping[str, Any]]) -> list[TopicPartition]:
    """Return every partition of the described topics, in order."""
    from kafka import TopicPartition

    return [
        TopicPartition(topic["name"], index)
        for topic in topics
        for index in sorted(partition["partition_index"] for partition in topic["partitions"])
    ]


def start_offsets(client: KafkaAdminClient, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the log start offset of each partition."""
    from kafka.admin import OffsetSpec

    return _offsets(client, partitions, OffsetSpec.EARLIEST)


def end_offsets(client: KafkaAdminClient, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the high watermark of each partition."""
    from kafka.admin import OffsetSpec

    return _offsets(client, partitions, OffsetSpec.LATEST)


def last_stable_offsets(client: KafkaAdminClient, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offset up to which read_committed consumers can read each partition."""
    from kafka.admin import OffsetSpec
    from kafka.protocol.consumer import IsolationLevel

    return _offsets(client, partitions, OffsetSpec.LATEST, isolation_level=IsolationLevel.READ_COMMITTED)


def offsets_at(
    client: KafkaAdminClient, partitions: Iterable[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """Return the offset of the first record at or after a time; the partition's end if there is none."""
    partitions = list(partitions)
    found = _offsets(client, partitions, timestamp_ms)
    ends = end_offsets(client, [partition for partition, offset in found.items() if offset < 0])
    return {**found, **ends}


def uuid_text(uuid: Any) -> str:
    """Return a topic or directory id in Kafka's text format."""
    return base64.urlsafe_b64encode(UUID(str(uuid)).bytes).decode().rstrip("=")


def _offsets(
    client: KafkaAdminClient, partitions: Iterable[TopicPartition], which: Any, **options: Any
) -> dict[TopicPartition, int]:
    wanted = dict.fromkeys(partitions, which)
    if not wanted:
        return {}
    return {partition: answer.offset for partition, answer in client.list_partition_offsets(wanted, **options).items()}
