"""Two logs of one partition in different data directories: which one is current.

A power cut may restore the directory from which a log was moved (`future_replicas.py`), and a full or failed directory
may keep the log of a deleted topic, or restore it (`deletion_queue.py`). So each log that replaces another stores in
`partition.moves` how many logs of the partition came before it; a start opens the log with the largest number.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from protocol.errors import InvariantError
from storage.disk import Disk
from storage.log.names import METADATA_TOPIC, parse_log_name

if TYPE_CHECKING:
    from storage.log_directory import LogDirectory

MOVES_FILE = "partition.moves"


def moves_of(disk: Disk, path: str) -> int:
    """Return how many logs came before the one at `path`; 0 if that is not stored."""
    try:
        return int(disk.read_file(f"{path}/{MOVES_FILE}"))
    except (FileNotFoundError, ValueError):
        return 0


def supersede(disk: Disk, former_moves: int, path: str, temporary: str) -> None:
    """Create a log's directory at `path` that the next start prefers to one of `former_moves` moves; raise OSError.

    It is created as `temporary`, a name that a start deletes, and renamed once `partition.moves` is written: a crash
    cannot leave two logs with the same number.
    """
    made = path if disk.exists(path) else temporary
    disk.make_dirs(made)
    disk.replace_file(f"{made}/{MOVES_FILE}", b"%d\n" % (former_moves + 1))
    if made != path:
        disk.rename(made, path)


def superseded(disk: Disk, names: Mapping[LogDirectory, list[str]]) -> set[str]:
    """Return the paths of the logs that are in another data directory too, to which they were moved later.

    Raise InvariantError if a partition is in two directories without a move.
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
