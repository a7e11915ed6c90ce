"""The small text files of a data directory: parse and format, in Apache Kafka's formats.

    recovery-point-offset-checkpoint   |  0            version
    log-start-offset-checkpoint        |  2            count
    replication-offset-checkpoint      |  topic 0 42   topic, partition, offset
    cleaner-offset-checkpoint          |  topic 1 17
    leader-epoch-checkpoint               the same, with entries of epoch and start offset
    partition.metadata                    "version: 0" and "topic_id: <base64>"
    meta.properties                       a Java properties file: version=1, cluster.id, node.id, directory.id
    .kafka_cleanshutdown                  {"version":0,"brokerEpoch":N}

Callers read and replace the files through `disk.py`. Invalid content raises `CheckpointError` with the file and the
line: a guessed offset could lose records.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from protocol.plural import count_of
from protocol.primitives import ZERO_UUID, uuid_parse, uuid_text
from storage.log.leader_epochs import EpochEntry
from storage.properties import PropertiesError, Property, format_properties, parse_properties

UNKNOWN_BROKER_EPOCH = -1
_MAX_NUMBER = 2**63 - 1

TopicPartition: TypeAlias = tuple[str, int]


class CheckpointError(ValueError):
    """A file's content is invalid; `is_newer` if its version is a later one."""

    def __init__(self, file: str, line: int, problem: str, field: str = "line", *, is_newer: bool = False) -> None:
        super().__init__(f"{file}, line {line}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem
        self.field = field
        self.is_newer = is_newer


class MetaProperties(NamedTuple):
    """The cluster and node that a data directory belongs to, and its own id."""

    cluster_id: str
    node_id: int
    directory_id: bytes | None


def format_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Return the text of an offset checkpoint."""
    return _table(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def parse_offsets(text: str, file: str) -> dict[TopicPartition, int]:
    """Return the offsets of the offset checkpoint `file`; none if it is empty."""
    offsets: dict[TopicPartition, int] = {}
    for line, (topic, partition_text, offset) in _rows(text, file, "topic", "partition", "offset"):
        partition = _number(partition_text, file, line, "partition")
        if (topic, partition) in offsets:
            raise CheckpointError(file, line, f"{topic} {partition} is listed twice", "partition")
        offsets[topic, partition] = _number(offset, file, line, "offset")
    return offsets


def format_leader_epochs(entries: Iterable[EpochEntry]) -> str:
    """Return the text of `leader-epoch-checkpoint`."""
    return _table(f"{entry.epoch} {entry.start_offset}" for entry in entries)


def parse_leader_epochs(text: str, file: str) -> list[EpochEntry]:
    """Return the entries of the leader epoch checkpoint `file`, both columns ascending; none if it is empty."""
    entries: list[EpochEntry] = []
    for line, (epoch, start_offset) in _rows(text, file, "epoch", "start_offset"):
        entry = EpochEntry(_number(epoch, file, line, "epoch"), _number(start_offset, file, line, "start_offset"))
        for name, value, before in zip(EpochEntry._fields, entry, entries[-1], strict=True) if entries else ():
            if value <= before:
                raise CheckpointError(file, line, f"{value} after {before}", name)
        entries.append(entry)
    return entries


def format_partition_metadata(topic_id: bytes) -> str:
    """Return the text of `partition.metadata`."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}"


def parse_partition_metadata(text: str, file: str) -> bytes:
    """Return the topic id in the partition metadata `file`."""
    values: dict[str, tuple[int, str]] = {}
    for line, content in enumerate(text.splitlines(), 1):
        name, colon, value = content.partition(":")
        if not colon:
            raise CheckpointError(file, line, f"not 'name: value': {content!r}", "version" if line == 1 else "topic_id")
        values[name.strip()] = line, value.strip()
    for name in ("version", "topic_id"):
        if name not in values:
            raise CheckpointError(file, len(values) + 1, f"{name} is missing", name)
    line, version = values["version"]
    if version != "0":
        raise _unknown_version(version, "0", file, line)
    line, topic_id_text = values["topic_id"]
    try:
        topic_id = uuid_parse(topic_id_text)
    except ValueError as error:
        raise CheckpointError(file, line, str(error), "topic_id") from None
    if topic_id == ZERO_UUID:
        raise CheckpointError(file, line, "the topic id is all zeros", "topic_id")
    return topic_id


def format_meta_properties(meta: MetaProperties) -> str:
    """Return the text of `meta.properties`."""
    values = {"version": "1", "cluster.id": meta.cluster_id, "node.id": str(meta.node_id)}
    if meta.directory_id is not None:
        values["directory.id"] = uuid_text(meta.directory_id)
    return format_properties(values)


def parse_meta_properties(text: str, file: str) -> MetaProperties:
    """Return the contents of the meta properties `file`; unknown keys are ignored."""
    try:
        properties = parse_properties(text)
    except PropertiesError as error:
        raise CheckpointError(file, error.line, error.problem) from None
    for name in ("version", "cluster.id", "node.id"):
        found = properties.get(name, Property("", 1))
        if not found.value:
            raise CheckpointError(file, found.line, f"{name} is missing", name)
    version, line = properties["version"]
    if version != "1":
        raise _unknown_version(version, "1", file, line)
    node_id_text, line = properties["node.id"]
    node_id = _number(node_id_text, file, line, "node.id")
    directory_id = None
    if "directory.id" in properties:
        directory_id_text, line = properties["directory.id"]
        try:
            directory_id = uuid_parse(directory_id_text)
        except ValueError as error:
            raise CheckpointError(file, line, str(error), "directory.id") from None
    return MetaProperties(properties["cluster.id"].value, node_id, directory_id)


def format_clean_shutdown(broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> str:
    """Return the content of `.kafka_cleanshutdown`, which exists if all logs were closed."""
    return f'{{"version":0,"brokerEpoch":{broker_epoch}}}'


def parse_clean_shutdown(text: str, file: str) -> int:
    """Return the epoch of the broker that wrote the clean shutdown `file`, -1 if it had none."""
    import json

    try:
        content = json.loads(text)
        version, epoch = content["version"], content["brokerEpoch"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise CheckpointError(file, 1, f"not the JSON of a clean shutdown: {text!r}") from None
    if version != 0:
        raise _unknown_version(str(version), "0", file, 1)
    if type(epoch) is not int or not UNKNOWN_BROKER_EPOCH <= epoch <= _MAX_NUMBER:
        raise CheckpointError(file, 1, f"{epoch!r} is not a broker epoch", "brokerEpoch")
    return epoch


def _table(rows: Iterable[str]) -> str:
    lines = list(rows)
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines))


def _rows(text: str, file: str, *columns: str) -> list[tuple[int, list[str]]]:
    """Return (line number, fields) of each entry of a version 0 table."""
    lines = text.splitlines()
    if not lines:
        return []
    if lines[0].strip() != "0":
        raise _unknown_version(lines[0].strip(), "0", file, 1)
    if len(lines) < 2:
        raise CheckpointError(file, 2, "the number of entries is missing", "count")
    count = _number(lines[1].strip(), file, 2, "count")
    if count != len(lines) - 2:
        raise CheckpointError(file, 2, f"the number of entries is {len(lines) - 2}, not {count} as declared", "count")
    rows = [(number, line.split()) for number, line in enumerate(lines[2:], 3)]
    for number, fields in rows:
        if len(fields) != len(columns):
            missing = columns[min(len(fields), len(columns) - 1)]
            raise CheckpointError(file, number, f"{count_of(len(fields), 'field')} instead of {len(columns)}", missing)
    return rows


def _unknown_version(version: str, known: str, file: str, line: int) -> CheckpointError:
    """Return the error for an unknown version: `is_newer` if it is a number above `known`."""
    is_newer = version.isascii() and version.isdigit() and len(version) < 6 and int(version) > int(known)
    return CheckpointError(file, line, f"version {version} is unknown, only {known} is", "version", is_newer=is_newer)


def _number(text: str, file: str, line: int, field: str) -> int:
    """Return a non-negative integer."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else _MAX_NUMBER + 1
    if number > _MAX_NUMBER:
        raise CheckpointError(file, line, f"{text!r} is not an offset, epoch or id", field)
    return number
