"""Checks of a data directory: its own files, every log in it, and the checkpoints against the logs."""

from collections.abc import Callable, Iterator, Mapping

from protocol.errors import DecodeError, KafkaError
from protocol.primitives import uuid_text
from storage.checkpoint import (
    CheckpointError,
    TopicPartition,
    parse_clean_shutdown,
    parse_meta_properties,
    parse_offsets,
    parse_partition_metadata,
)
from storage.disk import Disk
from storage.inspection import kinds
from storage.inspection.findings import Finding, readable
from storage.inspection.kinds import Kind
from storage.inspection.metadata_files import check_snapshot, topic_ids
from storage.inspection.partition import PartitionCheck, of_checkpoint
from storage.log.corruption_checks import cleaned_offsets
from storage.log.files import METADATA_FILE
from storage.log.names import METADATA_TOPIC, parse_log_name
from storage.log_directory import CONTIGUOUS_FROM, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS

_PARSERS: dict[Kind, Callable[[str, str], object]] = {
    Kind.META: parse_meta_properties,
    Kind.CLEAN_STOP: parse_clean_shutdown,
    Kind.OFFSETS: parse_offsets,
}


def log_directories(disk: Disk, directory: str) -> list[str]:
    """Return the paths of the logs in a data directory, without `-delete`, `-future` and `-stray` ones."""
    return [
        f"{directory}/{name}"
        for name in disk.list_dir(directory)
        if parse_log_name(name) is not None and disk.is_dir(f"{directory}/{name}")
    ]


def may_be_compacted(disk: Disk, path: str) -> bool:
    """Return whether the log at `path` has been compacted, or may have been: its cleaner checkpoint cannot be read."""
    parent, _, name = path.rpartition("/")
    try:
        cleaned = cleaned_offsets(disk, parent)
    except OSError:
        cleaned = None
    return cleaned is None or parse_log_name(name) in cleaned


def _log_start(disk: Disk, path: str) -> int:
    parent, _, name = path.rpartition("/")
    starts = f"{parent}/{LOG_STARTS}"
    try:
        return parse_offsets(disk.read_file(starts).decode(errors="replace"), starts).get(
            parse_log_name(name) or ("", 0), 0
        )
    except (OSError, CheckpointError):
        return 0  # `check_own_files` reports it


def check_log(disk: Disk, directory: str) -> Iterator[Finding]:
    """Yield the findings in the directory of one log."""
    yield from partition_check(disk, directory).run()


def check_directory(disk: Disk, directory: str) -> Iterator[Finding]:
    """Yield the findings in a data directory and in all of its logs."""
    yield from check_own_files(disk, directory)
    ends: dict[TopicPartition, int] = {}
    for path in log_directories(disk, directory):
        check = partition_check(disk, path)
        yield from check.run()
        ends[check.key] = check.end_offset
    yield from check_topic_ids(disk, directory)
    yield from check_offsets(disk, directory, ends)


def check_topic_ids(disk: Disk, directory: str) -> Iterator[Finding]:
    """Yield logs whose topic id the metadata log in the same directory does not have.

    Only after a clean stop: a crash may leave the log of a topic that was just created or deleted.
    """
    names = disk.list_dir(directory)
    if f"{METADATA_TOPIC}-0" not in names or ".kafka_cleanshutdown" not in names:
        return
    try:
        known = topic_ids(disk, f"{directory}/{METADATA_TOPIC}-0")
    except (OSError, DecodeError, KafkaError):
        return  # reported by the check of the metadata log
    for log in log_directories(disk, directory):
        path = f"{log}/{METADATA_FILE}"
        if kinds.topic_of(log) == METADATA_TOPIC:
            continue
        try:
            topic_id = parse_partition_metadata(disk.read_file(path).decode(errors="replace"), path)
        except (OSError, CheckpointError):
            continue
        if known and topic_id not in known:
            problem = f"{uuid_text(topic_id)} is not a topic id in the metadata log"
            yield Finding(path, 2, "topic_id", problem)


def check_own_files(disk: Disk, directory: str) -> Iterator[Finding]:
    """Yield the findings in the files directly in a data directory."""
    names = disk.list_dir(directory)
    if "meta.properties" not in names:
        yield Finding(f"{directory}/meta.properties", None, "cluster.id", "file is missing: restore it, or start empty")
    metadata = f"{METADATA_TOPIC}-0"
    if "bootstrap.checkpoint" in names and metadata not in names and any(parse_log_name(name) for name in names):
        problem = "directory is missing: a start would create a new cluster without the topics of these logs"
        yield Finding(f"{directory}/{metadata}", None, "base_offset", problem)
    for name in names:
        path = f"{directory}/{name}"
        if parse_log_name(name) is not None and not disk.is_dir(path):
            yield Finding(path, None, "base_offset", "is a file instead of a log directory")
        yield from readable(path, check_small_file(disk, path))


def check_small_file(disk: Disk, path: str) -> Iterator[Finding]:
    """Yield the findings in a file directly in a data directory, from its content alone."""
    kind = kinds.kind_of(path.rpartition("/")[2])
    if kind is Kind.SNAPSHOT:
        yield from check_snapshot(disk, path)
    elif kind in _PARSERS:
        try:
            _PARSERS[kind](disk.read_file(path).decode(errors="replace"), path)
        except CheckpointError as error:
            yield of_checkpoint(error)


def check_offsets(disk: Disk, directory: str, ends: Mapping[TopicPartition, int]) -> Iterator[Finding]:
    """Yield where the checkpoints of a data directory contradict its logs; `ends` has the log end offsets."""
    for name in disk.list_dir(directory):
        if kinds.kind_of(name) is Kind.OFFSETS:
            try:
                yield from _of_checkpoint(disk, f"{directory}/{name}", ends)
            except (CheckpointError, OSError):
                continue  # reported by `check_own_files`


def _of_checkpoint(disk: Disk, path: str, ends: Mapping[TopicPartition, int]) -> Iterator[Finding]:
    """Compare the offsets of a checkpoint with the logs.

    After an unclean stop it may list logs that are deleted and lack new ones.
    """
    directory, _, name = path.rpartition("/")
    offsets = parse_offsets(disk.read_file(path).decode(errors="replace"), path)
    clean = disk.exists(f"{directory}/.kafka_cleanshutdown")
    for line, ((topic, partition), offset) in enumerate(offsets.items(), 3):
        end = ends.get((topic, partition))
        if end is None:
            if clean:
                yield Finding(path, line, "topic", f"no log of {topic}-{partition} in this directory")
        # A truncation does not lower the high watermark checkpoint and `contiguous-from-checkpoint`.
        elif offset > end and (clean or name not in (HIGH_WATERMARKS, CONTIGUOUS_FROM)):
            yield Finding(path, line, "offset", f"{offset} is above the log end offset of {topic}-{partition}, {end}")
    if clean and name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        for topic, partition in ends.keys() - offsets.keys():
            if topic != METADATA_TOPIC:
                yield Finding(path, None, "count", f"{topic}-{partition} is missing")


def partition_check(disk: Disk, path: str) -> PartitionCheck:
    """Return the check of the log at `path`, with its log start, compaction and stop from the data directory."""
    parent = path.rpartition("/")[0]
    return PartitionCheck(
        disk,
        path,
        compacted=may_be_compacted(disk, path),
        # A log copied without its data directory counts as cleanly closed.
        clean=disk.exists(f"{parent}/.kafka_cleanshutdown") or not disk.exists(f"{parent}/meta.properties"),
        log_start_offset=_log_start(disk, path),
    )
