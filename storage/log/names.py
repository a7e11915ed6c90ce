"""The names of log directories in a data directory.

    <topic>-<partition>                           a log
    <topic>-<partition>.<32 hex digits>-delete    a deleted log; its files are deleted later
    <topic>-<partition>.<32 hex digits>-stray     a log that belongs to no topic
    <topic>-<partition>.<32 hex digits>-future    the copy of a log that is moved to this data directory (KIP-113)

A name has at most `MAX_NAME_LENGTH` bytes. `-delete` and `-stray` names may truncate the topic; they are never parsed
back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.checkpoint import TopicPartition

if TYPE_CHECKING:
    from random import Random

METADATA_TOPIC = "__cluster_metadata"

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"

MAX_NAME_LENGTH = 255


def log_name(key: TopicPartition) -> str:
    """Return the directory name of a partition's log."""
    return f"{key[0]}-{key[1]}"


def unique_name(key: TopicPartition, suffix: str, random: Random) -> str:
    """Return a new, random name with `suffix` for a partition's former or future log."""
    ending = f"-{key[1]}.{random.getrandbits(128):032x}{suffix}"
    return key[0][: MAX_NAME_LENGTH - len(ending)] + ending


def future_name_fits(key: TopicPartition) -> bool:
    """Return whether the partition's `-future` name has room for the whole topic name, to be parsed back."""
    return len(log_name(key)) + len(f".{0:032x}{FUTURE_SUFFIX}") <= MAX_NAME_LENGTH


def parse_log_name(name: str) -> TopicPartition | None:
    """Return the partition of a log's directory name; None for any other name."""
    topic, _, partition = name.rpartition("-")
    return (topic, int(partition)) if topic and partition.isdecimal() and partition.isascii() else None


def parse_future_name(name: str) -> TopicPartition | None:
    """Return the partition of a `-future` directory name; None for any other name."""
    return parse_log_name(name.rpartition(".")[0]) if name.endswith(FUTURE_SUFFIX) else None
