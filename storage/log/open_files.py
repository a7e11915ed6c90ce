"""The segments whose file is open: a bounded number, with second-chance (clock) eviction.

A broker may have more segments than a process may have open files, and most of them are idle. A segment opens its file
at its first use and registers here; each later use only sets its `used` flag, so an append has no other cost. When the
limit is reached, the file opened longest ago is closed, unless it was used since it was last examined. `sweep`, called
periodically, closes the files that were not used since the last sweep, while more than `KEPT` are open.

The descriptor of a closed file stays open until the last slice that is being sent from it is gone (`storage.disk`).
Registration is a weak reference: the descriptor of a deleted segment is closed with it, which frees its disk space.
"""

import sys
from typing import Protocol
from weakref import WeakKeyDictionary

KEPT = 1000
"""The number of unused files that `sweep` leaves open."""


class Holder(Protocol):
    """An object with an open file that can be opened again."""

    used: bool

    def close_file(self) -> None:
        """Drop the file and call `OpenFiles.closed`."""


class OpenFiles:
    """The holders whose file is open."""

    __slots__ = ("_holders", "max_open")

    def __init__(self, max_open: int = sys.maxsize) -> None:
        """Allow at most `max_open` open files."""
        self.max_open = max_open
        # In the order in which they are examined.
        self._holders: WeakKeyDictionary[Holder, None] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._holders)

    def opened(self, holder: Holder) -> None:
        """Register the open file of `holder`; before that, close others while the limit is reached."""
        holders = self._holders
        while len(holders) >= self.max_open:
            oldest = next(iter(holders))
            if oldest.used:
                oldest.used = False
                del holders[oldest]
                holders[oldest] = None
            else:
                oldest.close_file()
        holders[holder] = None

    def closed(self, holder: Holder) -> None:
        """Remove `holder`, if it is registered."""
        self._holders.pop(holder, None)

    def sweep(self) -> None:
        """Close the files that were not used since the last sweep, while more than `KEPT` are open."""
        excess, unused = len(self._holders) - KEPT, list[Holder]()
        for holder in self._holders:
            if len(unused) < excess and not holder.used:
                unused.append(holder)
            holder.used = False
        for holder in unused:
            holder.close_file()
