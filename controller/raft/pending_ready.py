"""The pending Ready: actions collected until the driver takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.raft.log import Entry
from controller.raft.messages import ElectionState, OutboundRequest, Ready, ReceivedBatches, Response, SnapshotPart

if TYPE_CHECKING:
    from controller.raft.log import SnapshotId


class PendingReady:
    """The Ready under construction."""

    def __init__(self, high_watermark: int) -> None:
        """Start empty; the driver knows `high_watermark` already."""
        self._last_high_watermark = high_watermark
        self.election_state: ElectionState | None = None
        self._clear()

    def _clear(self) -> None:
        self.election_state = None
        self.truncate_to: int | None = None
        self.snapshot_parts: list[SnapshotPart] = []
        self.reset_to_snapshot: SnapshotId | None = None
        self.entries: list[Entry] = []
        self.received: ReceivedBatches | None = None
        self.requests: list[OutboundRequest] = []
        self.responses: list[Response] = []
        self.warnings: list[str] = []

    def take(self, high_watermark: int) -> Ready | None:
        """Return the collected Ready and start an empty one; None if there is nothing to do."""
        if high_watermark <= self._last_high_watermark and self._is_empty:
            return None
        ready = Ready(
            election_state=self.election_state,
            truncate_to=self.truncate_to,
            snapshot_parts=tuple(self.snapshot_parts),
            reset_to_snapshot=self.reset_to_snapshot,
            entries=tuple(self.entries),
            received=self.received,
            requests=tuple(self.requests),
            responses=tuple(self.responses),
            high_watermark=high_watermark,
            warnings=tuple(self.warnings),
        )
        self._last_high_watermark = high_watermark
        self._clear()
        return ready

    @property
    def _is_empty(self) -> bool:
        return (
            self.election_state is None
            and self.truncate_to is None
            and self.reset_to_snapshot is None
            and self.received is None
            and not (self.snapshot_parts or self.entries or self.requests or self.responses or self.warnings)
        )
