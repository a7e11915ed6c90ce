"""Which kind of file a name says, in a data directory and in the directory of a log."""

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
    """What a file holds; the values are what people call it."""

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
    RECOVERY_POINTS: Kind.OFFSETS,
    LOG_STARTS: Kind.OFFSETS,
    HIGH_WATERMARKS: Kind.OFFSETS,
    CLEANER_OFFSETS: Kind.OFFSETS,
    CONTIGUOUS_FROM: Kind.OFFSETS,
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
# Files on their way in or out hold the same as those in use.
_OF_OFFSET = re.compile(r"(\d{20})\.([a-z]+)(?:\.(?:deleted|cleaned|swap))?")
# What a repair has taken out of a segment: `<name>.<position>.damaged`; other files are renamed as they are.
_TAKEN_OUT = re.compile(r"(?P<name>.+?)(?:\.\d+)?(?:-\d+)?\.damaged")
_SNAPSHOT = re.compile(r"\d{20}-\d{10}\.checkpoint")
_PASSING = re.compile(r".*\.(deleted|cleaned|swap|tmp|damaged)|\d{20}-\d{10}\.checkpoint\.part")
_LOG_DIRECTORY = re.compile(r".+-\d+(\.[0-9a-f]{32}-(delete|future|stray))?")


def kind_of(name: str) -> Kind | None:
    """Return the kind of the file of this name; None if it is none of Kafka's."""
    found = _OF_OFFSET.fullmatch(name)
    if found is not None:
        return _SUFFIXES.get(found[2])
    return Kind.SNAPSHOT if _SNAPSHOT.fullmatch(name) else _NAMES.get(name)


def readable_as(name: str) -> Kind | None:
    """Return the kind by which somebody can read a file: that of what it was, if a repair has put it aside."""
    found = _TAKEN_OUT.fullmatch(name)
    return kind_of(found["name"] if found else name)


def base_offset(name: str) -> int:
    """Return the offset that a file is named for."""
    return int(name[:20])


def is_foreign(name: str) -> bool:
    """Tell whether nobody here makes files of this name."""
    return name != ".lock" and kind_of(name) is None and _PASSING.fullmatch(name) is None


def is_log_directory(name: str) -> bool:
    """Tell whether a directory of this name is a log's, in use or on its way."""
    return _LOG_DIRECTORY.fullmatch(name) is not None


def topic_of(directory: str) -> str:
    """Return the topic that the directory of a log is named for; "" if it is not."""
    name = directory.rpartition("/")[2]
    found = parse_log_name(re.sub(r"\.[0-9a-f]{32}-(delete|future|stray)", "", name))
    return found[0] if found else ""


def segment_bases(disk: Disk, directory: str) -> list[int]:
    """Return where the segments in use in a log's directory begin, lowest first."""
    return sorted(base_offset(name) for name in disk.list_dir(directory) if re.fullmatch(r"\d{20}\.log", name))
