"""A follower's replica: the appends, truncations and offsets that its leader's responses cause.

The log stores the leader's batches unchanged; its end is the next fetch offset. It is truncated only where it diverges
from the leader's log, by leader epochs, not to its own high watermark (KIP-101, KIP-279). Its high watermark and its
start follow the leader's, as far as its own records reach.

A leader forgets the epochs of deleted records. If a log diverges below the leader's log start, the leader cannot
determine where, and returns its log start. The follower then drops all of its records: those below the leader's start
are deleted everywhere, those of its own there may differ from the committed ones, and its last batch may end inside one
of the leader's.

Pure but for its log. `fetcher_state` decides what is requested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.replication.replica_state import NO_EPOCH, NO_OFFSET
from protocol.errors import ErrorCode
from protocol.record_batch import iter_batches

if TYPE_CHECKING:
    from broker.replication.partition import Partition
    from protocol.messages.fetch import FetchResponse
    from protocol.primitives import Buffer
    from storage.log_manager import LogManager

    _Fetched = FetchResponse.Topic.Partition


class FollowerReplica:
    """The replica of a partition that another broker leads in `leader_epoch`."""

    __slots__ = ("_changed", "_logs", "_now_ms", "leader", "leader_epoch", "partition")

    def __init__(
        self,
        partition: Partition,
        logs: LogManager,
        now_ms: Callable[[], int],
        changed: Callable[[Partition], None],
    ) -> None:
        """Call `changed` after each change that a reader could see; `now_ms` returns the wall clock."""
        self.partition = partition
        self.leader = partition.leader
        self.leader_epoch = partition.leader_epoch
        self._logs = logs
        self._now_ms = now_ms
        self._changed = changed

    def __repr__(self) -> str:
        return repr(self.partition)

    @property
    def end_offset(self) -> int:
        """Return the log end offset: the next fetch offset."""
        return self.partition.log.log_end_offset

    @property
    def start_offset(self) -> int:
        """Return the offset of the first record."""
        return self.partition.log.log_start_offset

    @property
    def start_is_saved(self) -> bool:
        """Return whether the log start would survive a crash."""
        return self._logs.log_start_is_saved(self.partition.log)

    @property
    def last_epoch(self) -> int:
        """Return the latest leader epoch in the log, -1 if there is none."""
        latest = self.partition.log.leader_epochs.latest
        return NO_EPOCH if latest is None else latest

    def append(self, records: Buffer, leader_start: int = NO_OFFSET) -> bool:
        """Append batches of the leader, whose log starts at `leader_start`; return whether at least one was complete.

        KafkaError and DecodeError: nothing was appended.
        """
        before = self.end_offset
        if before == self.start_offset or before == leader_start:
            self._reset_to_first_batch(records)
        if len(records):
            self.partition.log.append_as_follower(records, self.leader_epoch, self._now_ms())
            self.partition.topic_metrics.replication_bytes_in += len(records)
        return self.end_offset > before

    def _reset_to_first_batch(self, records: Buffer) -> None:
        """If the leader's log starts inside its first batch, reset this log to that batch's base offset.

        Any records in this log are below the leader's start. A log with the leader's records would not end inside a
        batch, so they are dropped. `update_offsets` removes the part of the batch below the leader's start.
        """
        end = self.end_offset
        for _, header in iter_batches(records):
            if header.base_offset < end < header.next_offset:
                self._logs.truncate_fully_and_start_at(self.partition.log, header.base_offset)
            break

    def update_offsets(self, high_watermark: int, log_start_offset: int) -> bool:
        """Apply the leader's high watermark and log start; return whether the log start moved and has to be saved."""
        log = self.partition.log
        before = log.high_watermark, log.log_start_offset
        if high_watermark > before[0]:
            log.update_high_watermark(high_watermark)
        if log_start_offset > before[1]:
            self._logs.delete_records(log, min(log_start_offset, log.high_watermark))
            self.partition.log_start_seen = log.log_start_offset
        if before != (log.high_watermark, log.log_start_offset):
            self._changed(self.partition)
        return log.log_start_offset > before[1]

    def update_high_watermark(self, fetched: _Fetched) -> None:
        """Apply only the high watermark of a late result in this leader epoch: the leader does not repeat it."""
        if fetched.error_code == ErrorCode.NONE and fetched.diverging_epoch.end_offset == NO_OFFSET:
            self.update_offsets(fetched.high_watermark, self.start_offset)

    def truncate_diverged(self, epoch: int, end_offset: int, leader_start: int = NO_OFFSET) -> int:
        """Truncate what the leader does not have, whose log has `epoch` up to `end_offset`; return the new end offset.

        `epoch` is the leader's largest epoch not above this log's last one. If this log lacks it, the log is truncated
        to the end of its largest epoch below; that may diverge too, which the next fetch determines. If only records
        below `leader_start` would remain, the log is reset to `leader_start`. A member of the ISR that would end
        exactly there keeps its records: it has all committed records, so the same ones below the leader's start, and
        the producer state.
        """
        partition = self.partition
        log, in_sync = partition.log, partition.node_id in partition.isr
        known, end = log.end_offset_for_epoch(epoch)
        if known == NO_EPOCH:
            end = end_offset
        elif known == epoch:
            end = min(end, end_offset)
        if log.log_start_offset < leader_start and (end < leader_start or (end == leader_start and not in_sync)):
            self.truncate_fully_and_start_at(leader_start)
        else:
            self.truncate_to(min(end, log.log_end_offset))
        return log.log_end_offset

    def truncate_to(self, end_offset: int) -> None:
        """Truncate the log to `end_offset`, and drop the leader epochs that start there, even those without records."""
        log = self.partition.log
        if end_offset < log.log_end_offset:
            self._logs.truncate_to(log, end_offset)
        else:
            log.truncate_to(end_offset)  # only epochs: the checkpoint files do not change
        self._changed(self.partition)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records, and continue at `offset`, the leader's log start."""
        self._logs.truncate_fully_and_start_at(self.partition.log, offset)
        self.partition.log_start_seen = offset
        self._changed(self.partition)
