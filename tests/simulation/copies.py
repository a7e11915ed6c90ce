"""How far replicas came in each leader epoch, also in processes that have died since.

A leader counts a replica that has fetched up to an offset. The replica may lose unsynced records in a power cut before
the high watermark rises, for example while the leader waits for an ISR change. The leader cannot know that.
"""

from __future__ import annotations

Replica = tuple[str, bytes, int]
"""Host, topic id and partition index."""


class Copies:
    """The largest log end of each replica by leader epoch, less what the replica truncated."""

    def __init__(self) -> None:
        self._ends: dict[Replica, dict[int, int]] = {}

    def seen(self, replica: Replica, leader_epoch: int, log_end: int, *, truncated: bool) -> None:
        """Take note of a log end; `truncated`: this process had more before."""
        ends = self._ends.setdefault(replica, {})
        ends[leader_epoch] = log_end if truncated else max(log_end, ends.get(leader_epoch, 0))

    def end(self, replica: Replica, leader_epoch: int) -> int:
        """Return how far a replica came in a leader epoch; 0 if it never followed in that."""
        return self._ends.get(replica, {}).get(leader_epoch, 0)
