"""Cordoned log directories, which take no new partitions (KIP-1066): those in `cordoned.log.dirs`.

The setting lists paths, or `*` for all, and can change while the broker runs. Heartbeats report the directory ids to
the controller, which places partitions. A path outside `log.dirs` has no effect. Replicas in a cordoned directory stay
there and are served as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.log_directory import LogDirectory

_ALL = "*"


def cordoned_ids(directories: Iterable[LogDirectory], named: Sequence[str]) -> tuple[bytes, ...]:
    """Return the ids of the directories whose paths are in `named`."""
    paths = {path.rstrip("/") for path in named}
    return tuple(sorted(one.directory_id for one in directories if _ALL in named or one.path in paths))
