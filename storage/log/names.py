"""The names that logs have in a data directory.

    <topic>-<partition>                           a log
    <topic>-<partition>.<32 hex digits>-delete    a deleted one, on its way out
    <topic>-<partition>.<32 hex digits>-stray     one that no topic claims
    <topic>-<partition>.<32 hex digits>-future    the copy that a move to this directory is making

No name is longer than a file system takes; a long topic's is cut in those of which nobody asks whose they were.
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
    """Return the name of a partition's log."""
    return f"{key[0]}-{key[1]}"


def unique_name(key: TopicPartition, suffix: str, random: Random) -> str:
    """Return a new name for what was, or will be, a partition's log."""
    ending = f"-{key[1]}.{random.getrandbits(128):032x}{suffix}"
    return key[0][: MAX_NAME_LENGTH - len(ending)] + ending


def future_name_fits(key: TopicPartition) -> bool:
    """Tell whether the name of a partition's copy can be told apart from those of other topics."""
    return len(log_name(key)) + len(f".{0:032x}{FUTURE_SUFFIX}") <= MAX_NAME_LENGTH


def parse_log_name(name: str) -> TopicPartition | None:
    """Return whose log a name says it is; None for anything else."""
    topic, _, partition = name.rpartition("-")
    return (topic, int(partition)) if topic and partition.isdecimal() and partition.isascii() else None


def parse_future_name(name: str) -> TopicPartition | None:
    """Return whose log a name says it will be; None for anything else."""
    return parse_log_name(name.rpartition(".")[0]) if name.endswith(FUTURE_SUFFIX) else None
