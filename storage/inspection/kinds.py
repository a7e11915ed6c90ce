"""Kinds of files in a data directory and in a log's directory, by their names."""

import re
from enum import StrEnum

from storage.disk import Disk
from storage.former_replicas import MOVES_FILE
from storage.log.files import EPOCHS_FILE, METADATA_FILE
from storage.log.names import parse_log_name
from storage.log_directory import CONTIGUOUS_FROM, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS

CLEANER_OFFSETS = "cleaner-offset-checkpoint"
DAMAGED_SUFFIX = ".damaged"


class Kind(StrEnum):
    """What a file holds; the values are shown to users."""

    LOG = "segment"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TXN_INDEX = "transaction index"
    PRODUCERS = "producer snapshot"
    SNAPSHOT = "metadata snapshot"
    OFFSETS = "offset checkpoint"
    EPOCHS = "leader epoch checkpoint"
    PARTITION = "partition metadata"
    META = "meta properties"
    QUORUM = "quorum state"
    CLEAN_STOP = "clean shutdown file"
    MOVES = "move count"


_NAMES = {
    **dict.fromkeys((RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS, CONTIGUOUS_FROM), Kind.OFFSETS),
    EPOCHS_FILE: Kind.EPOCHS,
    METADATA_FILE: Kind.PARTITION,
    MOVES_FILE: Kind.MOVES,
    "meta.properties": Kind.META,
    "quorum-state": Kind.QUORUM,
    ".kafka_cleanshutdown": Kind.CLEAN_STOP,
    "bootstrap.checkpoint": Kind.SNAPSHOT,
}
_SUFFIXES = {
    "log": Kind.LOG,
    "index": Kind.OFFSET_INDEX,
    "timeindex": Kind.TIME_INDEX,
    "txnindex": Kind.TXN_INDEX,
    "snapshot": Kind.PRODUCERS,
}
# `.deleted`, `.cleaned` and `.swap` files have the same content as those in use.
_OF_OFFSET = re.compile(r"(\d{20})\.([a-z]+)(?:\.(?:deleted|cleaned|swap))?")
# Bytes that a repair moved out of a segment: `<name>.<position>.damaged`. Other files are renamed whole.
_DAMAGED = re.compile(r"(?P<name>.+?)(?:\.\d+)?(?:-\d+)?\.damaged")
_SNAPSHOT = re.compile(r"\d{20}-\d{10}\.checkpoint")
_TEMPORARY = re.compile(r".*\.(deleted|cleaned|swap|tmp|damaged)|\d{20}-\d{10}\.checkpoint\.part")
_LOG_DIRECTORY = re.compile(r".+-\d+(\.[0-9a-f]{32}-(delete|future|stray))?")


def kind_of(name: str) -> Kind | None:
    """Return the kind of the file of this name; None if it is not a Kafka file."""
    found = _OF_OFFSET.fullmatch(name)
    if found is not None:
        return _SUFFIXES.get(found[2])
    return Kind.SNAPSHOT if _SNAPSHOT.fullmatch(name) else _NAMES.get(name)


def readable_as(name: str) -> Kind | None:
    """Return the kind to read a file as: for `.damaged` files, that of the original."""
    found = _DAMAGED.fullmatch(name)
    return kind_of(found["name"] if found else name)


def base_offset(name: str) -> int:
    """Return the offset in a file's name."""
    return int(name[:20])


def is_foreign(name: str) -> bool:
    """Return whether no broker creates files of this name."""
    return name != ".lock" and kind_of(name) is None and _TEMPORARY.fullmatch(name) is None


def is_log_directory(name: str) -> bool:
    """Return whether a directory of this name is a log's, in use or `-delete`, `-future` or `-stray`."""
    return _LOG_DIRECTORY.fullmatch(name) is not None


def topic_of(directory: str) -> str:
    """Return the topic in the name of a log's directory; "" if it is not one."""
    name = directory.rpartition("/")[2]
    found = parse_log_name(re.sub(r"\.[0-9a-f]{32}-(delete|future|stray)", "", name))
    return found[0] if found else ""


def segment_bases(disk: Disk, directory: str) -> list[int]:
    """Return the base offsets of the segments in use in a log's directory, ascending."""
    return sorted(base_offset(name) for name in disk.list_dir(directory) if re.fullmatch(r"\d{20}\.log", name))
