"""A follower's replica, as what its leader says changes it.

The log takes the leader's batches as they are, and its end is what the leader is asked for next. It is cut only where
the leader's log turns out to part from it, by leader epochs and never down to its own high watermark (KIP-101,
KIP-279); its high watermark and its start follow the leader's, as far as its own records reach.

A leader forgets the epochs of records that it has deleted. It cannot tell where a log diverged that parts from its own
before its log start, and returns that start. The follower then keeps nothing: records below the leader's start are
deleted everywhere, its own there may be others than were committed, and its last batch may end inside one of the
leader's.

Pure but for its log. When what is asked is `fetching`'s.
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


class ReplicaCopy:
    """The replica of a partition that another broker leads in `leader_epoch`."""

    __slots__ = ("_changed", "_logs", "_now_ms", "leader", "leader_epoch", "partition")

    def __init__(
        self,
        partition: Partition,
        logs: LogManager,
        now_ms: Callable[[], int],
        changed: Callable[[Partition], None],
    ) -> None:
        """Call `changed` after each change of what a reader could see; `now_ms` is the time of day."""
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
        """Return the offset that comes next."""
        return self.partition.log.log_end_offset

    @property
    def start_offset(self) -> int:
        """Return the offset of the first record."""
        return self.partition.log.log_start_offset

    @property
    def start_is_saved(self) -> bool:
        """Say whether a crash would leave the log's start where it is."""
        return self._logs.log_start_is_saved(self.partition.log)

    @property
    def last_epoch(self) -> int:
        """Return the newest leader epoch of which the log knows, -1 if there is none."""
        latest = self.partition.log.leader_epochs.latest
        return NO_EPOCH if latest is None else latest

    def append(self, records: Buffer, leader_start: int = NO_OFFSET) -> bool:
        """Append batches of the leader, whose log starts at `leader_start`; return whether there was a whole one.

        KafkaError and DecodeError: nothing was appended.
        """
        before = self.end_offset
        if before == self.start_offset or before == leader_start:
            self._begin_within(records)
        if len(records):
            self.partition.log.append_as_follower(records, self.leader_epoch, self._now_ms())
            self.partition.traffic.replication_bytes_in += len(records)
        return self.end_offset > before

    def _begin_within(self, records: Buffer) -> None:
        """Begin at the base offset of the leader's first batch if the leader's log starts inside it.

        Everything in the log, if anything, is below the leader's start. A log with the same records would not end
        inside a batch, so they are dropped. What the batch has below the start goes as soon as `learn` gets that.
        """
        end = self.end_offset
        for _, header in iter_batches(records):
            if header.base_offset < end < header.next_offset:
                self._logs.truncate_fully_and_start_at(self.partition.log, header.base_offset)
            break

    def learn(self, high_watermark: int, log_start_offset: int) -> bool:
        """Follow the leader's high watermark and log start; say whether the log starts later, which is to be saved."""
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

    def learn_high_watermark(self, fetched: _Fetched) -> None:
        """Take only the high watermark of a late answer in this leader epoch: the leader does not repeat it."""
        if fetched.error_code == ErrorCode.NONE and fetched.diverging_epoch.end_offset == NO_OFFSET:
            self.learn(fetched.high_watermark, self.start_offset)

    def part(self, epoch: int, end_offset: int, leader_start: int = NO_OFFSET) -> int:
        """Drop what the leader does not have, whose log has `epoch` up to `end_offset`; return the new end.

        `epoch` is the leader's last up to the one that this log ends in. If it is unknown here too, this log's last
        one before it ends may still be in doubt: the next fetch, which names that, tells. If nothing but records below
        `leader_start` would be left, drop them too, and begin anew there; but not those of a member of the ISR, which
        has all that is committed, and so the same records below the leader's start, and producers to remember.
        """
        partition = self.partition
        log, in_sync = partition.log, partition.node_id in partition.isr
        known, end = log.end_offset_for_epoch(epoch)
        if known == NO_EPOCH:
            end = end_offset
        elif known == epoch:
            end = min(end, end_offset)
        if log.log_start_offset < leader_start and (end < leader_start or (end == leader_start and not in_sync)):
            self.restart(leader_start)
        else:
            self.cut(min(end, log.log_end_offset))
        return log.log_end_offset

    def cut(self, end_offset: int) -> None:
        """Drop everything from `end_offset` on, and leader epochs that begin there though no record does."""
        log = self.partition.log
        if end_offset < log.log_end_offset:
            self._logs.truncate_to(log, end_offset)
        else:
            log.truncate_to(end_offset)  # the checkpoint files say nothing of epochs
        self._changed(self.partition)

    def restart(self, offset: int) -> None:
        """Drop everything, and go on at `offset`: the leader has nothing before it any more."""
        self._logs.truncate_fully_and_start_at(self.partition.log, offset)
        self.partition.log_start_seen = offset
        self._changed(self.partition)
