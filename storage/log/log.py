"""The log of one replica: append, read, truncate, delete old segments (Kafka: `UnifiedLog`, `LocalLog`).

Invariants:
- Offsets ascend from batch to batch; log start offset <= high watermark <= log end offset.
- Appended bytes are in the page cache when `append_*` returns: they survive a crash of the process, not a power cut.
- `read` returns no batch at or above `limit_offset`.
- A failed write leaves the log unchanged: the written bytes are truncated. If the truncation fails, or the error is
  neither a full disk nor a lack of file descriptors, the data directory goes offline.

Durability is Kafka's: no sync per append unless `flush.messages` requires one; `begin_flush` returns a flush that a
thread can sync. The caller validates batches from clients (`protocol.record_batch.check_batch`); the broker handles
acks and isolation levels. `loader.py` opens logs; `retention.py` selects the segments to delete.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import (
    CONTROL_BIT,
    BatchHeader,
    HeaderFields,
    end_txn_marker,
    place,
    read_header,
    set_log_append_time,
)
from storage.disk import Disk
from storage.log.config import LOG_APPEND_TIME, LogConfig
from storage.log.file_slice import FetchDataInfo, FileSlice
from storage.log.files import LogFiles
from storage.log.flush import Flush, sync_truncation
from storage.log.flush_queue import FlushQueue
from storage.log.leader_epochs import EpochEnd, LeaderEpochs
from storage.log.log_validator import LogAppendInfo, append_info, batches_to_follow, validate_batch
from storage.log.producer_recovery import recover_producers
from storage.log.producer_state import CLIENT, AppendOrigin, CompletedTxn, ProducerStateManager
from storage.log.record_search import TimestampOffset
from storage.log.recovery import RecoveryReport
from storage.log.retention import Bounds, Deletable, deletable
from storage.log.segment import LENGTH_COVERS_FROM, MAX_RELATIVE_OFFSET, LogSegment
from storage.log.segments import LogSegments
from storage.log.transaction_index import AbortedTxn
from storage.log_directory import LogDirectory, no_directory
from storage.steps import Steps, T, while_unchanged

__all__ = ["FetchDataInfo", "FileSlice", "Log", "LogAppendInfo", "LogConfig", "TimestampOffset"]


class LoadedLog(NamedTuple):
    """A log's parts and offsets, as `loader.py` has loaded them from its files (Kafka: `LoadedLogOffsets`)."""

    files: LogFiles
    segments: LogSegments
    producers: ProducerStateManager
    leader_epochs: LeaderEpochs
    start_offset: int
    end_offset: int
    recovery_point: int
    is_new: bool
    """Whether the name of the log's directory may not be durable yet."""
    topic_id: bytes
    report: RecoveryReport
    maybe_former: bool = False
    """Whether the log has records but lost its topic id in a power cut: they may be a deleted topic's."""


class Log:
    """The log of one partition; `loader.open_log` creates it."""

    __slots__ = (
        "_directory", "_disk", "_files", "_flushes", "_segments", "cleaned_to", "config", "directory", "high_watermark",
        "leader_epochs", "log_end_offset", "log_start_offset", "maybe_former", "on_truncation", "partition",
        "pending_deletes", "producers", "recovery", "recovery_point", "topic", "topic_id", "truncations",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: LogDirectory,
        path: str,
        topic: str,
        partition: int,
        config: LogConfig,
        loaded: LoadedLog,
        now_ms: int,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._files = loaded.files
        self._flushes = FlushQueue(disk, now_ms, is_new=loaded.is_new)
        self._segments = loaded.segments
        self.cleaned_to: int | None = None
        """The offset below which the log is compacted; None if it never was."""
        self.config = config
        self.truncations = 0
        self.directory = path
        self.high_watermark = 0
        self.leader_epochs = loaded.leader_epochs
        self.log_end_offset = loaded.end_offset
        self.log_start_offset = loaded.start_offset
        # Called before a truncation, a move or a deletion of the log: aborts its compaction pass.
        self.on_truncation: Callable[[], None] | None = None
        self.partition = partition
        # (due time in ms, path) of the files of segments that were removed from the log.
        self.pending_deletes: list[tuple[int, str]] = []
        self.producers = loaded.producers
        self.recovery = loaded.report
        self.recovery_point = loaded.recovery_point
        self.topic = topic
        self.topic_id = loaded.topic_id
        self.maybe_former = loaded.maybe_former

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Assign a topic id to a log without one: a new log, or one that lost its id in a power cut."""
        with self._directory.storage_errors():
            self._files.save_topic_id(topic_id)
        self.topic_id = topic_id

    # Offsets

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is completed, at most the high watermark.

        At least the log start offset, though an open transaction's first records may be deleted.
        """
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    @property
    def offline(self) -> bool:
        """Whether the data directory has failed, or the log was deleted."""
        return self._directory.failure is not None

    @property
    def size_bytes(self) -> int:
        """The size of all batches in bytes."""
        return self._segments.size_bytes

    @property
    def segments(self) -> Sequence[LogSegment]:
        """Every segment, oldest first; the last is the active segment."""
        return self._segments.all

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, limited to the range from log start to log end, and return it."""
        self.high_watermark = offset = max(self.log_start_offset, min(offset, self.log_end_offset))
        if self.producers.first_unstable_offset is not None:
            self.producers.high_watermark_moved(offset)
        return offset

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Return the largest known epoch up to `epoch` and its end offset; both -1 if unknown (KIP-101)."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # Appending

    def append_as_leader(
        self,
        records: bytearray | memoryview,
        leader_epoch: int,
        now_ms: int,
        header: BatchHeader | None = None,
        origin: AppendOrigin = CLIENT,
    ) -> LogAppendInfo:
        """Assign the next offsets to one validated batch, in place, and append it (Kafka: `UnifiedLog.appendAsLeader`).

        `header` is the decoded header of `records`, if the caller has it. A batch that repeats one of an idempotent
        producer's last five is not appended; the result has the offsets of the first append. Raise KafkaError,
        with nothing appended: the errors of `log_validator.validate_batch` and `ProducerStateManager.check`, of a
        marker `ProducerStateManager.check_marker`, or KAFKA_STORAGE_ERROR.
        """
        if header is None:
            header = read_header(records)
        config = self.config
        validate_batch(records, header, config, now_ms)
        append_time_ms = -1
        if config.timestamp_type == LOG_APPEND_TIME:
            append_time_ms = now_ms
            set_log_append_time(records, now_ms)
            header = read_header(records)
        if header.producer_id >= 0:
            if origin.marker is not None:
                self.producers.check_marker(header, origin.marker, origin.transaction_version)
            elif (first := self.producers.check(header, origin)) is not None:
                time_ms, start = first.timestamp if append_time_ms >= 0 else -1, self.log_start_offset
                return append_info(
                    (first.base_offset, first.last_offset, first.timestamp, time_ms, start, leader_epoch, True)
                )
        base_offset = self.log_end_offset
        placed = place(records, header, base_offset, leader_epoch)
        self._write(records, (placed,), now_ms)
        last, start = self.log_end_offset - 1, self.log_start_offset
        return append_info((base_offset, last, header.max_timestamp, append_time_ms, start, leader_epoch, False))

    def append_as_follower(self, records: bytes | bytearray | memoryview, leader_epoch: int, now_ms: int) -> None:
        """Append batches from the leader of `leader_epoch` unchanged, with their offsets and epochs.

        `log_validator.batches_to_follow` skips some batches, and raises for others with nothing appended.
        """
        headers, end = batches_to_follow(records, self.log_end_offset, leader_epoch)
        if headers:
            self._write(memoryview(records)[:end], headers, now_ms)

    def append_validated(self, records: memoryview, headers: Sequence[HeaderFields], now_ms: int) -> None:
        """Append batches that the caller has validated: complete, undamaged, and contiguous from the log end on."""
        self._write(records, headers, now_ms)

    def _write(self, records: bytearray | memoryview, headers: Sequence[HeaderFields], now_ms: int) -> None:
        """Append complete batches and update the log's state.

        After a KafkaError the batches that `_write_each` has written stay.
        """
        directory = self._directory
        if directory.failure is not None:
            raise directory.offline()
        segments, config = self._segments, self.config
        # Unpacking is several times as fast as access by name.
        base_offset, _, _, _, _, _, last_delta, _, timestamp, _, _, _, _ = headers[-1]
        last_offset = base_offset + last_delta
        try:
            if segments.must_roll(config, len(records), last_offset, timestamp, now_ms):
                # Roll at the log end even if the next batch of a compacted log has a later offset: no gap between
                # segments.
                roll_offset = self.log_end_offset
                if last_offset - roll_offset > MAX_RELATIVE_OFFSET:
                    if len(headers) > 1:
                        self._write_each(records, headers, now_ms)
                        return
                    roll_offset = base_offset  # the gap exceeds an index's relative offsets
                self._roll(roll_offset, now_ms)
            segments.active.append(records, headers, config.index_interval_bytes)
        except OSError as error:
            try:
                segments.active.truncate_file()
            except OSError as second:
                raise directory.give_up(second) from error
            raise directory.fail(error) from error
        self.log_end_offset = next_offset = last_offset + 1
        producers, end = self.producers, 0
        for header in headers:
            base_offset, length, epoch, _, _, attributes, _, _, _, producer_id, _, _, _ = header
            start, end = end, end + LENGTH_COVERS_FROM + length
            if epoch != self.leader_epochs.latest:
                # The checkpoint is written at the next flush; recovery finds the epoch in the batches.
                self.leader_epochs.assign_newer(epoch, base_offset)
            if producer_id >= 0:
                marker = end_txn_marker(records[start:end]) if attributes & CONTROL_BIT else None
                ended = producers.update(header, marker)
                if ended is not None:
                    self._index_completed(ended)
        producers.end_offset = next_offset
        if next_offset - self.recovery_point >= config.flush_messages:
            # As in Kafka, sync before the append returns. This blocks the event loop; barnabas.fsync=always (group
            # commit) does not.
            self.flush(now_ms)

    def _write_each(self, records: bytearray | memoryview, headers: Sequence[HeaderFields], now_ms: int) -> None:
        """Append batches one at a time: one segment may not have room for all of their offsets."""
        end = 0
        for header in headers:
            start, end = end, end + LENGTH_COVERS_FROM + header[1]
            self._write(records[start:end], (header,), now_ms)

    def _index_completed(self, transaction: CompletedTxn) -> None:
        try:
            self._segments.index_completed(transaction)
        except OSError as error:
            self._directory.give_up(error)  # the next start rebuilds the index

    def assign_leader_epoch(self, epoch: int) -> None:
        """Record that `epoch` starts at the log end, unless it or a later one is known; called on the new leader."""
        self.leader_epochs.assign_newer(epoch, self.log_end_offset)

    # Reading

    def read(self, offset: int, max_bytes: int, *, limit_offset: int, min_one: bool = True) -> FetchDataInfo:
        """Return complete batches, from the one that holds `offset`, all ending below `limit_offset`.

        The result has at most `max_bytes`; with `min_one`, the first batch even if it is larger. The bytes are read
        when they are sent. Raise OFFSET_OUT_OF_RANGE if `offset` is below the log start or above the log end.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self}: offset {offset} is not in {self.log_start_offset} to {self.log_end_offset}",
            )
        if self._directory.failure is not None:
            raise self._directory.offline()
        if offset >= limit_offset or offset == self.log_end_offset:
            return FetchDataInfo([], 0)
        try:
            found = self._segments.read(offset, max_bytes, limit_offset, min_one)
        except OSError as error:
            raise self._directory.fail(error) from error
        return (
            FetchDataInfo([found], found.size_bytes) if found is not None and found.size_bytes else FetchDataInfo([], 0)
        )

    def aborted_transactions(self, offset: int, part: FileSlice) -> list[AbortedTxn]:
        """Return the aborted transactions that overlap `part`, which `read` returned for `offset`."""
        try:
            return self._segments.aborted(offset, part.end_offset)
        except OSError as error:
            raise self._directory.fail(error) from error

    def offset_for_timestamp(self, timestamp: int) -> Steps[TimestampOffset | None]:
        """Search for the first record whose timestamp is at least `timestamp`; None if there is none."""
        return self._search(self._segments.find_timestamp(timestamp, self.log_start_offset))

    def max_timestamp_offset(self) -> Steps[TimestampOffset | None]:
        """Search for the first record with the largest timestamp; None if no record has a timestamp."""
        return self._search(self._segments.find_max_timestamp())

    def _search(self, search: Steps[T]) -> Steps[T]:
        with self._directory.storage_errors():
            return (yield from while_unchanged(search, lambda: (self._directory, self.truncations)))

    # Truncation and retention

    def truncate_to(self, offset: int) -> bool:
        """Drop all records from `offset` on; return whether there were any.

        The new log end is the end of the last batch left: below `offset` if compaction left a gap there. Leader epochs
        from `offset` on are dropped even if no record is (KAFKA-10706). The caller checkpoints the recovery point.
        """
        segments, directory = self._segments, self._directory
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(offset)
            return False
        if offset < segments.base_offsets[0]:
            self.truncate_fully_and_start_at(offset)
            return True
        with directory.storage_errors():
            segments.prepare_truncation(offset, self.config.index_interval_bytes)
        start_offset = self.log_start_offset
        with directory.must_succeed():
            self._abort_readers_and_cleaner()
            self.log_end_offset = end_offset = segments.truncate_to(offset)
            if self.cleaned_to is not None:
                self.cleaned_to = min(self.cleaned_to, end_offset)
            self.recovery_point = min(self.recovery_point, end_offset)
            self.log_start_offset = min(self.log_start_offset, end_offset)
            self.high_watermark = min(self.high_watermark, end_offset)  # before the next steps, which may fail
            # The checkpoint is written at the next flush; a start before that drops the same epochs.
            self.leader_epochs.truncate_from_end(end_offset)
            self.producers = recover_producers(
                self._files, segments.all, end_offset, high_watermark=self.high_watermark
            )
            sync_truncation(self._disk, directory, self.directory, segments.active.file)
        self.update_high_watermark(self.high_watermark)
        if end_offset < start_offset <= offset:
            self.truncate_fully_and_start_at(start_offset)  # only deleted records are left
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records; the next offset is `offset`, or the first segment's base offset if the roll fails."""
        segments, directory = self._segments, self._directory
        self.truncate_to(segments.base_offsets[0])
        with directory.storage_errors():
            self._abort_readers_and_cleaner()
            segments.roll(offset, self._flushes.begun_ms)
        with directory.must_succeed():
            self.recovery_point = min(self.recovery_point, offset)
            self.cleaned_to = None
            self.log_start_offset = self.log_end_offset = self.high_watermark = offset
            self.leader_epochs.clear()
            self.producers = ProducerStateManager(offset)
            self._files.remove_snapshots(below=offset + 1)
            sync_truncation(self._disk, directory, self.directory, segments.active.file)
        self.update_high_watermark(offset)

    def _abort_readers_and_cleaner(self) -> None:
        self.truncations += 1
        if self.on_truncation is not None:
            self.on_truncation()

    def advance_log_start(self, offset: int) -> bool:
        """Set the log start offset to `offset`; return whether it was lower before.

        `delete_old_segments` deletes files later. Raise OFFSET_OUT_OF_RANGE above the high watermark.
        """
        if offset > self.high_watermark:
            past = f"{self}: offset {offset} is past the high watermark {self.high_watermark}"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, past)
        if offset <= self.log_start_offset:
            return False
        with self._directory.storage_errors():
            self.log_start_offset = offset
            # The checkpoint is written at the next flush; a start before that drops the same epochs.
            self.leader_epochs.truncate_from_start(offset)
        self.producers.log_start_moved(offset)
        return True

    def delete_old_segments(self, now_ms: int, *, full: bool = False) -> Sequence[Deletable]:
        """Remove the segments that retention selects and rename their files; return them with the reasons.

        `delete_files` deletes the files. Nothing is removed during a compaction pass, which reads every segment.
        `full`: the disk is full.
        """
        if self.on_truncation is not None:
            return ()
        files, segments = self._files, self._segments
        with self._directory.storage_errors():
            bounds = Bounds(self.log_start_offset, self.high_watermark, self.log_end_offset)
            if found := deletable(segments.all, self.config, bounds, now_ms=now_ms, full=full):
                if len(found) == len(segments.all):
                    self._roll(self.log_end_offset, now_ms, full=full)
                # Sync the new segment first: a power cut that kept only the deletions would leave a log that starts at
                # 0.
                self._flushes.sync_names(self.directory)
                self._flushes.names_changed()
                due_ms = now_ms + self.config.file_delete_delay_ms
                self.pending_deletes += [(due_ms, path) for path in segments.remove_first(len(found))]
        if found:
            self.advance_log_start(segments.base_offsets[0])
            if files.lacks_snapshot:
                self.delete_files(due_ms)  # frees the space that the snapshot needs
        if found or files.lacks_snapshot:
            with self._directory.storage_errors():
                files.tidy_snapshots(self.producers, self.log_end_offset, segments.base_offsets[0])
        return found

    def replace_segments(self, old: Sequence[LogSegment], made: LogSegment, now_ms: int) -> None:
        """Replace the adjacent segments `old` by `made`, compacted from them and durable.

        Raise OSError; the replacement may be half done.
        """
        paths = self._segments.replace(old, made)
        self._files.remove_snapshots_at([segment.base_offset for segment in old[1:]])
        self.pending_deletes += [(now_ms + self.config.file_delete_delay_ms, path) for path in paths]

    def delete_files(self, now_ms: int) -> None:
        """Delete the files of segments that were removed from the log `file.delete.delay.ms` ago."""
        with self._directory.storage_errors():
            if self.pending_deletes:
                # Sync the renames first: a power cut could undo them for some of these files only, which leaves a gap.
                self._flushes.sync_names(self.directory)
            while self.pending_deletes and self.pending_deletes[0][0] <= now_ms:
                self._disk.remove(self.pending_deletes[0][1])
                del self.pending_deletes[0]

    # Files

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, unless the active one is empty."""
        if self._segments.active.size_bytes:
            with self._directory.storage_errors():
                self._roll(self.log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int, *, full: bool = False) -> None:
        sealed = self._segments.active.base_offset
        self._segments.roll(base_offset, now_ms, full=full)
        if self.recovery_point >= base_offset:  # the sealed segment's indexes are not synced yet
            self.recovery_point = sealed
        self._flushes.rolled(sealed, base_offset)
        self._files.save_producers(self.producers, base_offset, full=full)

    def begin_flush(self, now_ms: int, end_offset: int | None = None) -> Flush | None:
        """Return a flush of everything below `end_offset` (None: the log end); None if all of it is durable."""
        end_offset = self.log_end_offset if end_offset is None else end_offset
        files, segments = self._files, self._segments
        if end_offset <= self.recovery_point and not (segments.active.unsynced_indexes or files.unsynced):
            return None
        log_dir, path = self._directory, self.directory
        with log_dir.storage_errors():
            files.save_epochs(self.leader_epochs)
            names, unsynced = files.unsynced, files.open_unsynced()
            unsynced += segments.take_unsynced(self.recovery_point, end_offset)
            files.taken()
        finish = partial(self._finish_flush, log_dir)
        return self._flushes.begin(
            unsynced, path, log_dir, end_offset, self.truncations, finish, names=names, now_ms=now_ms
        )

    def _finish_flush(self, log_dir: LogDirectory, flush: Flush) -> None:
        self.recovery_point = max(self.recovery_point, self._flushes.finish(flush, log_dir, self.truncations))

    def flush(self, now_ms: int) -> None:
        """Make everything below the log end durable before returning."""
        if flush := self.begin_flush(now_ms):
            flush.run()

    def due_flush(self, now_ms: int) -> Flush | None:
        """Begin and return the flush that is due; None if none is.

        After `flush.ms` it covers the whole log, otherwise the rolled segments. Return None after a KafkaError too: the
        directory stores the failure, and the flushes of other logs continue.
        """
        rolled, all_due = self._segments.active.base_offset, now_ms - self._flushes.begun_ms >= self.config.flush_ms
        with suppress(KafkaError):
            if self.log_end_offset > self.recovery_point and all_due:
                return self.begin_flush(now_ms)
            if rolled > self.recovery_point:
                return self.begin_flush(now_ms, rolled)
            # A log that loses its topic id in a power cut becomes stray: make the id durable with the first records.
            if self._files.has_new_topic_id and self.log_end_offset:
                return self.begin_flush(now_ms, self.recovery_point)
        return None

    def release(self) -> None:
        """Release the memory and file descriptors that reads of old segments took."""
        with self._directory.storage_errors():
            self._segments.release()

    def begin_close(self, now_ms: int) -> Flush | None:
        """Complete the files, and return the flush that leaves nothing for `close` to sync; None if all is durable."""
        with self._directory.storage_errors():
            self._segments.active.seal()
            # Drop an epoch without records, as the next start would, which then need not rewrite the file.
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            self._files.save_epochs(self.leader_epochs)
            if self.log_end_offset and not self._files.has_snapshot(self.log_end_offset):
                self._files.save_producers(self.producers, self.log_end_offset)
        return self.begin_flush(now_ms)

    def close(self, now_ms: int) -> None:
        """Write and sync everything for a clean shutdown; the log must not be used afterwards."""
        if flush := self.begin_close(now_ms):
            flush.run()

    def promote(self, copy: "Log", directory: LogDirectory) -> None:
        """Continue in the files of `copy`: the same batches, already in `directory` under this log's name (KIP-113)."""
        self._abort_readers_and_cleaner()
        self._directory = directory
        self.directory = f"{directory.path}/{self}"
        self._files = LogFiles(self._disk, self.directory)
        self._segments, self.recovery_point = copy._segments, copy.recovery_point
        self._segments.move_to(self.directory)
        self._flushes = FlushQueue(self._disk, self._flushes.begun_ms)
        self.pending_deletes.clear()

    def mark_deleted(self) -> None:
        """Refuse every operation from now on, before the files are deleted; reads in flight keep their files open."""
        self._abort_readers_and_cleaner()
        self._segments.close_files()
        self._directory = no_directory(self._disk, self._directory.path)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
