"""Which segments have their file open: as many as may be, the least recently used closed for those that come.

A broker has more logs than a process may have files open, and most of them are idle. A segment opens its file at its
first use and says so here; it marks itself as used with every use, which is all that an append pays. When there are too
many, the one that was opened longest ago goes, unless it was used since it was last looked at (a *clock*). From time to
time `sweep` closes those that nobody has used since the last one, beyond a number that is kept in any case.

Closing lets go of the descriptor no sooner than the last slice that is still being sent from it (`storage.disk`).
Nobody is kept alive by being listed here: the descriptor of a deleted segment goes with it, and with that its space.
"""

from __future__ import annotations

import sys
from typing import Protocol
from weakref import WeakKeyDictionary

KEPT = 1000
"""How many files stay open that nobody uses."""


class Holder(Protocol):
    """Whoever has a file open that can be opened again."""

    used: bool

    def close_file(self) -> None:
        """Let go of it, and say so by `OpenFiles.closed`."""
        ...


class OpenFiles:
    """The holders that have their file open."""

    __slots__ = ("_holders", "most")

    def __init__(self, most: int = sys.maxsize) -> None:
        """Let `most` files be open at the same time."""
        self.most = most
        # In the order in which they are looked at.
        self._holders: WeakKeyDictionary[Holder, None] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._holders)

    def opened(self, holder: Holder) -> None:
        """Take note that `holder` has opened its file, and close others if these are too many now."""
        holders = self._holders
        while len(holders) >= self.most:
            oldest = next(iter(holders))
            if oldest.used:
                oldest.used = False
                del holders[oldest]
                holders[oldest] = None
            else:
                oldest.close_file()
        holders[holder] = None

    def closed(self, holder: Holder) -> None:
        """Take note that the file of `holder` is not open, if it was."""
        self._holders.pop(holder, None)

    def sweep(self) -> None:
        """Close what has not been used since the last sweep, as far as there are more than `KEPT`."""
        excess = len(self._holders) - KEPT
        for holder in list(self._holders):
            if excess > 0 and not holder.used:
                holder.close_file()
                excess -= 1
            holder.used = False
