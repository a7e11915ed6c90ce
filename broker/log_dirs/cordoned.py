"""Data directories that take no new partitions (KIP-1066): those of `cordoned.log.dirs`.

The setting names paths, `*` for all of them, and can be altered while the broker runs; heartbeats tell the controller,
which places partitions and knows directories by their ids. A path that is none of `log.dirs` means nothing. What is in
a cordoned directory stays there and is served as ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.log_directory import LogDirectory

_ALL = "*"


def cordoned_ids(directories: Iterable[LogDirectory], named: Sequence[str]) -> tuple[bytes, ...]:
    """Return the ids of the directories that are `named` by their paths."""
    paths = {path.rstrip("/") for path in named}
    return tuple(sorted(one.directory_id for one in directories if _ALL in named or one.path in paths))
