"""One pass of the cleaner over one log, as a generator of short steps (Kafka: `Cleaner.doClean`).

    sync the log -> find aborted transactions -> map the dirty part -> rewrite group by group

If the offset map becomes full, the pass ends at the last mapped offset.

`step` reads and writes about `byte_budget` bytes. It returns None, or a function to be called in a thread before the
next step: a cold read, unpacking or packing a large batch, a sync. The pass has ended when `done` is true. It ends
early on `interrupt` (which the log calls before it drops records), a changed configuration, a failed or deleted log,
and any error, which `step` raises. Segments that were already swapped stay swapped.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from protocol.errors import KafkaError
from protocol.record_batch import BatchHeader, read_header
from protocol.record_scan import record_spans
from storage.checkpoint import CheckpointError
from storage.cleaner.batch_cleaner import RECORDS_A_STEP, BatchCleaner, LastBatch, unpacked
from storage.cleaner.batch_reader import BatchReader
from storage.cleaner.cleanable_range import LogToClean
from storage.cleaner.offset_map import OffsetMap
from storage.cleaner.segment_swap import SegmentSwap
from storage.cleaner.transactions import Transactions, find_aborted
from storage.disk import Disk
from storage.log.config import LogConfig
from storage.log.flush import Flush
from storage.log.log import Log
from storage.log.segment import MAX_RELATIVE_OFFSET, LogSegment
from storage.log.transaction_index import AbortedTxn
from storage.log_directory import CLEANED_TO, LogDirectory
from storage.steps import Step, Steps

# What a step without I/O counts for at least: part of a large batch, or a few headers.
_LEAST_WORK_BYTES = 4096


class CleanerPass:
    """A pass over `log`, from its start to the first uncleanable offset in `to_clean`."""

    __slots__ = (
        "_answer", "_chunk_bytes", "_config", "_directory", "_disk", "_error", "_flush", "_now_ms", "_offsets", "_swap",
        "_to_clean", "_work", "bytes_before", "bytes_read", "bytes_written", "cleaned_to", "done", "interrupted", "log",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: LogDirectory,
        log: Log,
        to_clean: LogToClean,
        *,
        now_ms: Callable[[], int],
        memory_bytes: int,
        load_factor: float,
        chunk_bytes: int,
    ) -> None:
        """Prepare the pass; the offset map takes at most `memory_bytes`."""
        self._disk = disk
        self._directory = directory
        self._to_clean = to_clean
        self._now_ms = now_ms
        self._chunk_bytes = chunk_bytes
        self._config = log.config
        self._flush: Flush | None = None
        self._swap: SegmentSwap | None = None
        self._answer: object = None
        self._error: Exception | None = None
        self.log = log
        self.bytes_read = self.bytes_written = 0
        self.bytes_before = 0
        """The size of the segments that the pass rewrites into `bytes_written`."""
        self.cleaned_to: int | None = None
        """The first dirty offset after the pass; None if it has not completed."""
        self.done = self.interrupted = False
        most_keys = to_clean.first_uncleanable_offset - to_clean.first_dirty_offset
        self._offsets = OffsetMap(memory_bytes, most_keys, load_factor, to_clean.first_dirty_offset)
        self._work = self._pass()
        log.on_truncation = self.interrupt

    def step(self, byte_budget: int) -> Callable[[], None] | None:
        """Work on up to `byte_budget` bytes. A failure ends the pass, which does not damage the log, and is raised."""
        used = 0
        try:
            with self._directory.storage_errors():
                while not self.done and used < byte_budget:
                    if self.log.config != self._config or self._directory.failure is not None:
                        self.interrupt()
                    if self.interrupted:
                        self._finish_flush()  # other flushes wait for this one
                        self._end()
                        break
                    before = self.bytes_read + self.bytes_written
                    step = self._advance()
                    used += max(self.bytes_read + self.bytes_written - before, _LEAST_WORK_BYTES)
                    if step is not None:
                        return self._deferred(step)
        except StopIteration:
            self._end()
        except Exception:  # any error ends the pass: retention is paused while it runs
            self._give_up()
            raise
        return None

    def _advance(self) -> Step:
        answer, error = self._answer, self._error
        self._answer = self._error = None
        return self._work.send(answer) if error is None else self._work.throw(error)

    def _deferred(self, function: Callable[[], object]) -> Callable[[], None]:
        """Return a call of `function` that stores its result or exception for the next step."""

        def call() -> None:
            try:
                self._answer = function()
            except Exception as error:  # thrown into the generator by the next step
                self._error = error

        return call

    def interrupt(self) -> None:
        """Abort the pass and remove its unfinished files, before the log changes in another way."""
        self.interrupted = True
        swap, self._swap = self._swap, None
        if swap is not None:
            swap.interrupt()

    def stop(self) -> None:
        """Abort the pass if it has not ended; the caller will not step it again."""
        if not self.done:
            self._give_up()

    def _give_up(self) -> None:
        """End the pass after a failure. The next start deletes files that cannot be deleted now."""
        try:
            with suppress(KafkaError):  # the failed directory logs it
                self._finish_flush()
            self.interrupt()
        except OSError as error:
            self._directory.fail(error)
        self._end()

    def _end(self) -> None:
        self.done = True
        self._work.close()
        self.log.on_truncation = None

    def _pass(self) -> Steps[None]:
        to_clean, log = self._to_clean, self.log
        end_offset = to_clean.first_uncleanable_offset
        segments = [segment for segment in log.segments if segment.base_offset < end_offset]
        producers = {
            producer_id: LastBatch(entry.epoch, entry.batches[-1].last_offset if entry.batches else None)
            for producer_id, entry in log.producers.producers.items()
        }
        yield from self._make_durable()
        aborted = yield from find_aborted(log.segments, end_offset)
        yield from self._map_keys(segments, aborted)
        cleaned_to = self._offsets.latest_offset + 1
        transactions = Transactions(aborted)
        cleaner = BatchCleaner(
            self._offsets,
            transactions,
            producers,
            segment_end_offset=end_offset,
            now_ms=self._now_ms(),
            delete_retention_ms=self._config.delete_retention_ms,
        )
        known = [segment for segment in segments if segment.base_offset < cleaned_to]
        self.bytes_before = sum(segment.size_bytes for segment in known)
        if log.cleaned_to is None:
            self._write_first_checkpoint()
        following = next((one.base_offset for one in segments[len(known) :]), end_offset)
        groups = list(group_segments(known, following, self._config))
        for number, group in enumerate(groups, 1):
            cleaner.segment_end_offset = groups[number][0].base_offset if number < len(groups) else following
            yield from self._rewrite(group, cleaner, transactions)
        log.cleaned_to = self.cleaned_to = cleaned_to

    def _make_durable(self) -> Steps[None]:
        """Sync the whole log.

        The newer records of a key, and the markers that commit them, must be durable before the older ones are removed.
        """
        self._flush = flush = self.log.begin_flush(self._now_ms())
        if flush is not None:
            yield flush.sync
            self._finish_flush()

    def _finish_flush(self) -> None:
        flush, self._flush = self._flush, None
        if flush is not None:
            flush.finish()

    def _write_first_checkpoint(self) -> None:
        """Write and sync the log's cleaner checkpoint before its first rewrite.

        A rewrite leaves gaps; after a crash, gaps in a log that the checkpoint does not list count as data loss.
        """
        log, directory = self.log, self._directory
        try:
            known = directory.read_offsets(CLEANED_TO) or {}
        except CheckpointError:
            known = {}
        log.cleaned_to = self._to_clean.first_dirty_offset
        directory.write_offsets(CLEANED_TO, {**known, (log.topic, log.partition): log.cleaned_to}, sync=True)

    def _map_keys(self, segments: list[LogSegment], aborted: list[AbortedTxn]) -> Steps[None]:
        """Map each key of the dirty part to its last offset, until the map is full."""
        offsets, first_dirty = self._offsets, self._to_clean.first_dirty_offset
        transactions = Transactions(txn for txn in aborted if txn.last_offset >= first_dirty)
        offsets.latest_offset = first_dirty - 1
        for number, segment in enumerate(segments):
            following = segments[number + 1].base_offset if number + 1 < len(segments) else None
            if following is not None and following <= first_dirty:
                continue
            start = segment.position_of(first_dirty) if segment.base_offset < first_dirty else 0
            reader = BatchReader(segment, start, self._chunk_bytes)
            while (chunk := (yield from reader.chunk())) is not None:
                for batch, header in reader.batches(chunk):
                    self.bytes_read += header.size_bytes
                    if header.is_control or transactions.is_aborted(header):
                        offsets.latest_offset = header.last_offset
                        continue
                    yield from self._map_batch(batch, header)
                    if offsets.latest_offset < header.last_offset:
                        return
                    yield None
            offsets.latest_offset = (self._to_clean.first_uncleanable_offset if following is None else following) - 1

    def _map_batch(self, batch: bytes | memoryview, header: BatchHeader) -> Steps[None]:
        offsets, base_offset, last_offset = self._offsets, header.base_offset, header.last_offset
        first_dirty, put = self._to_clean.first_dirty_offset, offsets.put
        mapped = offsets.latest_offset
        data = yield from unpacked(batch, header)
        for number, (_, _, _, offset_delta, key, has_value) in enumerate(record_spans(data, header.record_count), 1):
            offset = base_offset + offset_delta
            if key is not None and first_dirty <= offset <= last_offset:
                if offsets.key_count >= offsets.most_keys:
                    offsets.latest_offset = mapped
                    return
                mapped = offset
                if put(key, offset, has_value):
                    yield None
            if number % RECORDS_A_STEP == 0:
                yield None
        offsets.latest_offset = last_offset

    def _rewrite(self, group: list[LogSegment], cleaner: BatchCleaner, transactions: Transactions) -> Steps[None]:
        swap = self._swap = SegmentSwap(self._disk, self._directory, self.log, group, self._now_ms())
        for segment in group:
            reader = BatchReader(segment, 0, self._chunk_bytes)  # opened in turn: a group may have thousands of files
            while (chunk := (yield from reader.chunk())) is not None:
                out, headers = bytearray(), list[BatchHeader]()
                for batch, header in reader.batches(chunk):
                    self.bytes_read += header.size_bytes
                    left = yield from cleaner.clean(batch, header)
                    if left is not None:
                        out += left
                        headers.append(header if left is batch else read_header(left))
                    yield None
                if headers:
                    swap.append(out, headers, transactions.take_ended())
                    self.bytes_written += len(out)
                    yield None
        if not (yield from swap.complete(self._now_ms)):
            # Retention deleted part of the group: without its batches, later markers would seem to end empty
            # transactions.
            self.interrupted = True
            yield None
        self._swap = None


def group_segments(segments: Sequence[LogSegment], end_offset: int, config: LogConfig) -> Iterator[list[LogSegment]]:
    """Yield groups of adjacent segments, each to be rewritten as one (Kafka: `Cleaner.groupSegmentsBySize`).

    Without groups, repeated passes would leave a log of many tiny segments. Before cleaning, a group has at most
    `segment.bytes` of batches and `segment.index.bytes` of each index, and its offsets are within 2^31 - 1 of its base
    offset, the limit of an index entry. `end_offset` is the offset after the last segment.
    """
    group: list[LogSegment] = []
    size = offsets = times = 0
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        size += segment.size_bytes
        offsets += segment.offset_index.size_bytes
        times += segment.time_index.size_bytes
        if group and (
            size > config.segment_bytes
            or max(offsets, times) > config.segment_index_bytes
            or following - 1 - group[0].base_offset > MAX_RELATIVE_OFFSET
        ):
            yield group
            group = []
            size, offsets, times = segment.size_bytes, segment.offset_index.size_bytes, segment.time_index.size_bytes
        group.append(segment)
    if group:
        yield group
