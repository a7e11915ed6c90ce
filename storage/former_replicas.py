"""Which of two logs of one partition, in two data directories of one broker, is the current one.

A power cut may bring back the directory from which a log was moved (`future_replicas.py`), and a full or failed
directory may keep the log of a deleted topic (`deletion_queue.py`). Each log that succeeds another therefore stores in
`partition.moves` how many logs came before it, and a start opens the log with the larger number.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from protocol.errors import InvariantError
from storage.disk import Disk
from storage.log.names import METADATA_TOPIC, parse_log_name

if TYPE_CHECKING:
    from storage.log_directory import LogDirectory

MOVES_FILE = "partition.moves"


def moves_of(disk: Disk, path: str) -> int:
    """Return how often the log at `path` has been moved, as far as that is known there."""
    try:
        return int(disk.read_file(f"{path}/{MOVES_FILE}"))
    except (FileNotFoundError, ValueError):
        return 0


def supersede(disk: Disk, former: str, path: str, name_until_then: str) -> None:
    """Make the directory of a log at `path` that counts if `former`, another's of its name, is found too; OSError.

    It has another name until it says so, one that a start deletes: a crash leaves no two that count alike.
    """
    number = 0
    with suppress(OSError):  # the directory of the former has failed since, which is no fault of this one's
        number = moves_of(disk, former)
    made = path if disk.exists(path) else name_until_then
    disk.make_dirs(made)
    disk.replace_file(f"{made}/{MOVES_FILE}", b"%d\n" % (number + 1))
    if made != path:
        disk.rename(made, path)


def superseded(disk: Disk, names: Mapping[LogDirectory, list[str]]) -> set[str]:
    """Return the paths of the logs that are in another directory too, where they were moved to later.

    InvariantError if the same partition is in two directories and was not moved.
    """
    places: dict[str, list[str]] = {}
    for directory, found in names.items():
        for name in found:
            places.setdefault(name, []).append(f"{directory.path}/{name}")
    older: set[str] = set()
    for name, paths in places.items():
        key = parse_log_name(name) if len(paths) > 1 else None
        if key is not None and key[0] != METADATA_TOPIC:
            *others, newest = sorted(filter(disk.is_dir, paths), key=partial(moves_of, disk))
            if others and moves_of(disk, newest) == moves_of(disk, others[-1]):
                raise InvariantError(f"{others[-1]} and {newest} are the same partition")
            older.update(others)
    return older
