"""The log end of each replica by leader epoch, including processes that have died since.

A leader counts a replica that has fetched up to an offset. The replica may lose unsynced records in a power cut before
the high watermark advances, for example while the leader waits for an ISR change. The leader cannot know that.
"""

from __future__ import annotations

Replica = tuple[str, bytes, int]
"""Host, topic id and partition index."""


class Copies:
    """The largest log end of each replica by leader epoch, minus truncated records."""

    def __init__(self) -> None:
        self._ends: dict[Replica, dict[int, int]] = {}

    def seen(self, replica: Replica, leader_epoch: int, log_end: int, *, truncated: bool) -> None:
        """Record a log end; `truncated`: this process had a larger one before."""
        ends = self._ends.setdefault(replica, {})
        ends[leader_epoch] = log_end if truncated else max(log_end, ends.get(leader_epoch, 0))

    def end(self, replica: Replica, leader_epoch: int) -> int:
        """Return the log end that a replica reached in a leader epoch; 0 if it never followed in that epoch."""
        return self._ends.get(replica, {}).get(leader_epoch, 0)
