"""One replica's log: appended to at the end, read anywhere, trimmed at both ends.

Invariants: offsets rise from batch to batch; log start <= high watermark <= log end; what was appended is in the
page cache before `append_*` returns, so it survives the process; nothing at or past `limit_offset` is served.
After a failed write the log is as it was before: the bytes are cut off again, and if that fails too, or the fault
is not want of space, the whole directory goes offline.

Durability is Apache Kafka's: no sync per append unless `flush.messages` says so; `begin_flush` hands out what a thread
can sync beside the loop. Clients' batches arrive checked by `protocol.record_batch.check_batch`; acknowledgements and
isolation levels are the broker's. How a log is opened is in `opening.py`, which segments expire in `retention.py`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

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
from storage.log.file_slice import FileSlice, LogRead
from storage.log.files import LogFiles
from storage.log.flush import Flush, sync_cut
from storage.log.flush_queue import Flushes
from storage.log.leader_epochs import EpochEnd
from storage.log.log_validator import AppendInfo, admit, append_info, take_batches
from storage.log.parts import LogParts
from storage.log.producer_recovery import recover_producers
from storage.log.producer_state import CompletedTxn, ProducerState
from storage.log.record_search import TimestampOffset
from storage.log.retention import Bounds, Deletable, deletable
from storage.log.segment import LENGTH_COVERS_FROM, MAX_RELATIVE_OFFSET, Segment
from storage.log.transaction_index import AbortedTxn
from storage.log_directory import LogDirectory, no_directory
from storage.steps import Search, T, while_same

__all__ = ["AppendInfo", "FileSlice", "Log", "LogConfig", "LogRead", "TimestampOffset"]


class Log:
    """The log of one partition; made by `opening.open_log`."""

    __slots__ = (
        "_directory", "_disk", "_files", "_flushes", "_segments", "cleaned_to", "config", "cuts", "directory",
        "high_watermark", "leader_epochs", "log_end_offset", "log_start_offset", "maybe_former", "on_loss", "partition",
        "pending_deletes", "producers", "recovery", "recovery_point", "topic", "topic_id",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: LogDirectory,
        path: str,
        topic: str,
        partition: int,
        config: LogConfig,
        parts: LogParts,
        now_ms: int,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._files = parts.files
        self._flushes = Flushes(disk, now_ms, is_new=parts.is_new)
        self._segments = parts.segments
        self.cleaned_to: int | None = None
        """Up to where it is compacted, if it ever was."""
        self.config = config
        self.cuts = 0
        self.directory = path
        self.high_watermark = 0
        self.leader_epochs = parts.leader_epochs
        self.log_end_offset = parts.end_offset
        self.log_start_offset = parts.start_offset
        # Called before records go at the end, or all: what is being made of them is not to outlast them.
        self.on_loss: Callable[[], None] | None = None
        self.partition = partition
        # (when, path) of files that retention has taken out of the log, to be deleted once that is past.
        self.pending_deletes: list[tuple[int, str]] = []
        self.producers = parts.producers
        self.recovery = parts.report
        self.recovery_point = parts.recovery_point
        self.topic = topic
        self.topic_id = parts.topic_id
        self.maybe_former = parts.maybe_former
        """Whether its records may be those of a deleted topic of the same name."""

    def adopt(self, topic_id: bytes) -> None:
        """Make this the log of that topic, where the power went before its id was synced."""
        with self._directory.storage_errors():
            self._files.save_topic_id(topic_id)
        self.topic_id = topic_id

    # Offsets

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is decided, at most the high watermark.

        Never below the log's start, though an open transaction's first records may be deleted.
        """
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    @property
    def offline(self) -> bool:
        """Whether its directory has failed, or it was deleted."""
        return self._directory.failure is not None

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches."""
        return self._segments.size_bytes

    @property
    def segments(self) -> Sequence[Segment]:
        """Every segment, oldest first; the last is appended to."""
        return self._segments.all

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, held between the log's start and end, and return it."""
        self.high_watermark = offset = max(self.log_start_offset, min(offset, self.log_end_offset))
        if self.producers.first_unstable_offset is not None:  # else no transaction waits for its end to be committed
            self.producers.high_watermark_moved(offset)
        return offset

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Return the largest known epoch up to `epoch` and where it ends here, both -1 if unknown (KIP-101)."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # Appending

    def append_as_leader(
        self,
        records: bytearray | memoryview,
        leader_epoch: int,
        now_ms: int,
        header: BatchHeader | None = None,
    ) -> AppendInfo:
        """Give one checked batch the next offsets, in place, and append it; `header` saves reading it again.

        A batch that repeats one of an idempotent producer's last five is not appended, and its first offsets are
        returned. KafkaError says why nothing was appended: what `log_validator.py` or `ProducerState.check` raise, or
        KAFKA_STORAGE_ERROR.
        """
        if header is None:
            header = read_header(records)
        config = self.config
        admit(records, header, config, now_ms)
        append_time_ms = -1
        if config.timestamp_type == LOG_APPEND_TIME:
            append_time_ms = now_ms
            set_log_append_time(records, now_ms)
            header = read_header(records)
        if header.producer_id >= 0:
            first = self.producers.check(header)
            if first is not None:
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
        """Append batches as the leader of `leader_epoch` sent them, offsets and epochs kept.

        What is left out, and what is refused with nothing appended, is in `admission.take_batches`.
        """
        headers, end = take_batches(records, self.log_end_offset, leader_epoch)
        if headers:
            self._write(memoryview(records)[:end], headers, now_ms)

    def _write(self, records: bytearray | memoryview, headers: Sequence[HeaderFields], now_ms: int) -> None:
        """Append whole batches and count them; after a KafkaError, those that `_write_each` has written stay."""
        directory = self._directory
        if directory.failure is not None:
            raise directory.offline()
        segments, config = self._segments, self.config
        # By position, which is several times as fast as by name.
        base_offset, _, _, _, _, _, last_delta, _, timestamp, _, _, _, _ = headers[-1]
        last_offset = base_offset + last_delta
        try:
            if segments.must_roll(config, len(records), last_offset, timestamp, now_ms):
                # At the end, though a compacted log may go on behind it: segments follow on each other.
                roll_offset = self.log_end_offset
                if last_offset - roll_offset > MAX_RELATIVE_OFFSET:
                    if len(headers) > 1:
                        self._write_each(records, headers, now_ms)
                        return
                    roll_offset = base_offset  # a compacted log has a gap that is too large for an index
                self._roll(roll_offset, now_ms)
            segments.active.append(records, headers, config.index_interval_bytes)
        except OSError as error:
            try:
                segments.active.cut_back()
            except OSError as second:
                raise directory.give_up(second) from error
            raise directory.fail(error) from error
        self.log_end_offset = next_offset = last_offset + 1
        producers, end = self.producers, 0
        for header in headers:
            base_offset, length, epoch, _, _, attributes, _, _, _, producer_id, _, _, _ = header
            start, end = end, end + LENGTH_COVERS_FROM + length
            if epoch != self.leader_epochs.latest:
                # The file follows with the next flush: the batches that recovery reads say it too.
                self.leader_epochs.note(epoch, base_offset)
            if producer_id >= 0:
                marker = end_txn_marker(records[start:end]) if attributes & CONTROL_BIT else None
                ended = producers.update(header, marker)
                if ended is not None:
                    self._note_ended(ended)
        producers.end_offset = next_offset
        if next_offset - self.recovery_point >= config.flush_messages:
            # Before the append returns, as in Kafka: an acknowledged record is synced. This stops the event loop;
            # barnabas.fsync=always (group commit) does not.
            self.flush(now_ms)

    def _write_each(self, records: bytearray | memoryview, headers: Sequence[HeaderFields], now_ms: int) -> None:
        """Append batches one at a time: one segment may not have room for all of their offsets."""
        end = 0
        for header in headers:
            start, end = end, end + LENGTH_COVERS_FROM + header[1]
            self._write(records[start:end], (header,), now_ms)

    def _note_ended(self, transaction: CompletedTxn) -> None:
        try:
            self._segments.active.note_ended(transaction)
        except OSError as error:
            self._directory.give_up(error)  # the next start makes the index anew

    def assign_leader_epoch(self, epoch: int) -> None:
        """Note that `epoch` begins at the log's end, unless it or a later one is known; for a new leader."""
        self.leader_epochs.note(epoch, self.log_end_offset)

    # Reading

    def read(self, offset: int, max_bytes: int, *, limit_offset: int, min_one: bool = True) -> LogRead:
        """Return whole batches, the first of them the one that holds `offset`, all ending below `limit_offset`.

        They are at most `max_bytes`, except that with `min_one` the first comes even if it is larger. Their bytes
        are read when they are sent. KafkaError OFFSET_OUT_OF_RANGE outside log start to log end.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self}: offset {offset} is not in {self.log_start_offset} to {self.log_end_offset}",
            )
        if self._directory.failure is not None:
            raise self._directory.offline()
        if offset >= limit_offset or offset == self.log_end_offset:
            return LogRead([], 0)
        try:
            found = self._segments.read(offset, max_bytes, limit_offset, min_one)
        except OSError as error:
            raise self._directory.fail(error) from error
        return LogRead([found], found.size_bytes) if found is not None and found.size_bytes else LogRead([], 0)

    def aborted_transactions(self, offset: int, part: FileSlice, limit_offset: int) -> list[AbortedTxn]:
        """Return what a reader of committed records needs to read `part`, which `read` has just found."""
        try:
            return self._segments.aborted(offset, part, limit_offset)
        except OSError as error:
            raise self._directory.fail(error) from error

    def offset_for_timestamp(self, timestamp: int) -> Search[TimestampOffset | None]:
        """Find the first record whose timestamp is at least `timestamp`."""
        return self._search(self._segments.find_timestamp(timestamp, self.log_start_offset))

    def max_timestamp_offset(self) -> Search[TimestampOffset | None]:
        """Find the first record with the largest timestamp; None if no record has one."""
        return self._search(self._segments.find_max_timestamp())

    def _search(self, search: Search[T]) -> Search[T]:
        with self._directory.storage_errors():
            return (yield from while_same(search, lambda: (self._directory, self.cuts)))

    # Trimming

    def truncate_to(self, offset: int) -> bool:
        """Drop everything from `offset` on, for a follower that parted from its leader; tell if there was any.

        The log ends with the last batch left, as after a restart: where compaction left a gap, that is below `offset`.
        Leader epochs that begin there go even if no record does (KAFKA-10706). A recovery point must be checkpointed.
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
            self._lose()
            self.log_end_offset = end_offset = segments.truncate_to(offset)
            if self.cleaned_to is not None:
                self.cleaned_to = min(self.cleaned_to, end_offset)
            self.recovery_point = min(self.recovery_point, end_offset)
            self.log_start_offset = min(self.log_start_offset, end_offset)
            self.high_watermark = min(self.high_watermark, end_offset)  # at once: what follows may fail
            # The file follows with the next flush: until then a start leaves out what has gone.
            self.leader_epochs.truncate_from_end(end_offset)
            self.producers = recover_producers(
                self._files, segments.all, end_offset, high_watermark=self.high_watermark
            )
            sync_cut(self._disk, directory, self.directory, segments.active.file)
        self.update_high_watermark(self.high_watermark)
        if end_offset < start_offset <= offset:
            self.truncate_fully_and_start_at(start_offset)  # only deleted records are left
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the log is empty and its next offset is `offset`: or its first one if that fails."""
        segments, directory = self._segments, self._directory
        self.truncate_to(segments.base_offsets[0])
        with directory.storage_errors():
            self._lose()
            segments.roll(offset, self._flushes.begun_ms)
        with directory.must_succeed():
            self.recovery_point = min(self.recovery_point, offset)
            self.cleaned_to = None
            self.log_start_offset = self.log_end_offset = self.high_watermark = offset
            self.leader_epochs.clear()
            self.producers = ProducerState(offset)
            self._files.remove_snapshots(below=offset + 1)
            sync_cut(self._disk, directory, self.directory, segments.active.file)
        self.update_high_watermark(offset)

    def _lose(self) -> None:
        self.cuts += 1
        if self.on_loss is not None:
            self.on_loss()

    def advance_log_start(self, offset: int) -> bool:
        """Let the log begin at `offset`; tell whether that is later than before.

        Files go later, by `delete_old_segments`. KafkaError OFFSET_OUT_OF_RANGE past the high watermark.
        """
        if offset > self.high_watermark:
            past = f"{self}: offset {offset} is past the high watermark {self.high_watermark}"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, past)
        if offset <= self.log_start_offset:
            return False
        with self._directory.storage_errors():
            self.log_start_offset = offset
            # The file follows with the next flush: until then a start leaves out what has gone.
            self.leader_epochs.truncate_from_start(offset)
        self.producers.log_start_moved(offset)
        return True

    def delete_old_segments(self, now_ms: int, *, full: bool = False) -> Sequence[Deletable]:
        """Take out what is too old or too much; rename the files, for `delete_files`. Return which segments, and why.

        None while the log is compacted: a pass reads them all, and they go afterwards. `full`: the disk has no space.
        """
        if self.on_loss is not None:
            return ()
        files, segments = self._files, self._segments
        with self._directory.storage_errors():
            bounds = Bounds(self.log_start_offset, self.high_watermark, self.log_end_offset)
            if found := deletable(segments.all, self.config, bounds, now_ms=now_ms, full=full):
                if len(found) == len(segments.all):
                    self._roll(self.log_end_offset, now_ms, full=full)
                self._flushes.sync_names(self.directory)  # lest only the deletions last, and the log begin anew at 0
                self._flushes.names_changed()
                due_ms = now_ms + self.config.file_delete_delay_ms
                self.pending_deletes += [(due_ms, path) for path in segments.remove_first(len(found))]
        if found:
            self.advance_log_start(segments.base_offsets[0])
            if files.lacks_snapshot:
                self.delete_files(due_ms)  # makes the space that the snapshot needs
        if found or files.lacks_snapshot:
            with self._directory.storage_errors():
                files.tidy_snapshots(self.producers, self.log_end_offset, segments.base_offsets[0])
        return found

    def replace_segments(self, old: Sequence[Segment], made: Segment, now_ms: int) -> None:
        """Let `made`, compacted from `old` neighbours and durable, take their place; OSError with it half done."""
        paths = self._segments.replace(old, made)
        self._files.remove_snapshots_at([segment.base_offset for segment in old[1:]])
        self.pending_deletes += [(now_ms + self.config.file_delete_delay_ms, path) for path in paths]

    def delete_files(self, now_ms: int) -> None:
        """Delete the files of segments that left the log `file.delete.delay.ms` ago."""
        with self._directory.storage_errors():
            if self.pending_deletes:
                self._flushes.sync_names(self.directory)  # else some may be back later, but not those behind them
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
        self._segments.roll(base_offset, now_ms, full=full)
        self.recovery_point = min(self.recovery_point, base_offset - 1)  # the complete indexes are not synced yet
        self._flushes.rolled(base_offset)
        self._files.save_producers(self.producers, base_offset, full=full)

    def begin_flush(self, now_ms: int, end_offset: int | None = None) -> Flush | None:
        """List what must be synced for everything below `end_offset`, or all, to be durable; None if it is."""
        end_offset = self.log_end_offset if end_offset is None else end_offset
        files, segments = self._files, self._segments
        if end_offset <= self.recovery_point and not (segments.active.unsynced_indexes or files.unsynced):
            return None
        home, path = self._directory, self.directory
        with home.storage_errors():
            files.save_epochs(self.leader_epochs)
            names, unsynced = files.unsynced, files.open_unsynced()
            unsynced += segments.take_unsynced(self.recovery_point, end_offset)
            files.taken()
        finish = partial(self._finish_flush, home)
        return self._flushes.begin(unsynced, path, home, end_offset, self.cuts, finish, names=names, now_ms=now_ms)

    def _finish_flush(self, home: LogDirectory, flush: Flush) -> None:
        self.recovery_point = max(self.recovery_point, self._flushes.finish(flush, home, self.cuts))

    def flush(self, now_ms: int) -> None:
        """Make everything up to the log's end durable before returning."""
        if flush := self.begin_flush(now_ms):
            flush.run()

    def due_flush(self, now_ms: int) -> Flush | None:
        """Begin the flush that is due: of everything after `flush.ms`, else of what was rolled; none while that fails.

        Its directory says why it does; the flushes of others are not to wait for this one.
        """
        rolled, all_due = self._segments.active.base_offset, now_ms - self._flushes.begun_ms >= self.config.flush_ms
        with suppress(KafkaError):
            if self.log_end_offset > self.recovery_point and all_due:
                return self.begin_flush(now_ms)
            if rolled > self.recovery_point:
                return self.begin_flush(now_ms, rolled)
            # A log whose topic id a power cut took is not read any more.
            if self._files.has_new_topic_id and self.log_end_offset:
                return self.begin_flush(now_ms, self.recovery_point)
        return None

    def release(self) -> None:
        """Give back the memory and descriptors that reads of old segments took."""
        with self._directory.storage_errors():
            self._segments.release()

    def begin_close(self, now_ms: int) -> Flush | None:
        """Complete the files, and return what is to be synced for `close` to have nothing left to do."""
        with self._directory.storage_errors():
            self._segments.active.seal()
            # One that began without a record is not there after a start, and so need not be taken out of the file then.
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            self._files.save_epochs(self.leader_epochs)
            if self.log_end_offset and not self._files.has_snapshot(self.log_end_offset):
                self._files.save_producers(self.producers, self.log_end_offset)
        return self.begin_flush(now_ms)

    def close(self, now_ms: int) -> None:
        """Leave the files as a clean stop leaves them; the log is not used any more."""
        if flush := self.begin_close(now_ms):
            flush.run()

    def take_over(self, copy: "Log", directory: LogDirectory) -> None:
        """Go on in the files of `copy`: the same batches, which lie in `directory` under this log's name by now."""
        self._lose()
        self._directory = directory
        self.directory = f"{directory.path}/{self}"
        self._files = LogFiles(self._disk, self.directory)
        self._segments, self.recovery_point = copy._segments, copy.recovery_point
        self._segments.move_to(self.directory)
        self._flushes = Flushes(self._disk, self._flushes.begun_ms)
        self.pending_deletes.clear()

    def disown(self) -> None:
        """Refuse every operation from now on, since the files are going away; only reads in flight keep theirs open."""
        self._lose()
        self._segments.close_files()
        self._directory = no_directory(self._disk, self._directory.path)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
