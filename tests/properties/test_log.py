"""A log is a list of batches, under any operations and kills of its process."""

from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import BatchHeader, iter_batches, iter_records, read_header
from storage.log.log import Log, LogConfig
from storage.steps import finish
from tests.examples import examples
from tests.logs import NOW_MS, bases, open_log, stamped

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=80, retention_ms=-1, segment_ms=60, file_delete_delay_ms=0)

KEEP_BYTES = 1500
BATCHES = st.lists(st.lists(st.integers(-50, 50), min_size=1, max_size=3), min_size=4, max_size=16)


class LogIsAList(RuleBasedStateMachine):
    """`batches` is the model: (header, bytes) of every batch in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="log-"))
        self.log: Log = open_log(self.folder, CONFIG)
        self.batches: list[tuple[BatchHeader, bytes]] = []
        self.start = self.end = self.high_watermark = self.epoch = 0
        # The checkpointed values: recovery point, log start, high watermark.
        self.checkpoint = (0, 0, 0)

    @initialize(epoch=st.integers(0, 3))
    def elect(self, epoch: int) -> None:
        self.epoch = epoch

    def teardown(self) -> None:
        self.reads_return_whole_batches_below_the_limit(400, True)
        self.timestamp_lookup_returns_the_first_record_at_or_after()
        rmtree(self.folder)

    # Operations

    @rule(batches=BATCHES)
    def append(self, batches: list[list[int]]) -> None:
        for offsets in batches:
            # Occasionally a new leader.
            self.epoch += offsets[0] > 25
            records = stamped([NOW_MS + each for each in offsets])
            info = self.log.append_as_leader(records, self.epoch, NOW_MS)
            assert (info.base_offset, info.last_offset) == (self.end, self.end + len(offsets) - 1)
            self.batches.append((read_header(records), bytes(records)))
            self.end += len(offsets)

    @rule(batches=BATCHES)
    def append_and_commit(self, batches: list[list[int]]) -> None:
        self.append(batches)
        self.high_watermark = self.log.update_high_watermark(self.end)

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from([self.high_watermark, self.end, *self.boundaries()]))
        self.high_watermark = max(self.high_watermark, offset)
        self.log.update_high_watermark(self.high_watermark)

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from([self.end, *self.boundaries()[-6:]]))
        assert self.log.truncate_to(offset) is (offset < self.end)
        self.batches = [(header, raw) for header, raw in self.batches if header.last_offset < offset]
        self.end = offset
        self.high_watermark = min(self.high_watermark, offset)
        self.checkpoint = (min(self.checkpoint[0], offset), *self.checkpoint[1:])

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, min(self.high_watermark, self.start + 5)))
        assert self.log.advance_log_start(offset) is (offset > self.start)
        self.start = offset
        self.checkpoint = (self.checkpoint[0], offset, self.checkpoint[2])

    @rule()
    def apply_size_retention(self) -> None:
        kept = list(bases(self.log))
        while len(kept) > 1 and kept[1] <= self.high_watermark:
            if kept[1] > self.start and self.size_from(kept[1]) < KEEP_BYTES:
                break
            del kept[0]
        self.log.config = CONFIG._replace(retention_bytes=KEEP_BYTES)
        self.log.delete_old_segments(NOW_MS)
        self.log.delete_files(NOW_MS)
        self.log.config = CONFIG
        assert list(bases(self.log)) == kept
        self.start = max(self.start, kept[0])

    def size_from(self, offset: int) -> int:
        return sum(len(raw) for header, raw in self.batches if header.base_offset >= offset)

    @rule()
    def release(self) -> None:
        self.log.release()

    @rule()
    def flush_and_checkpoint(self) -> None:
        self.log.flush(NOW_MS)
        assert self.log.recovery_point == self.end
        self.checkpoint = (self.end, self.start, self.high_watermark)

    @rule()
    def stop_and_start(self) -> None:
        self.log.close(NOW_MS)
        self.reopen(clean=True, known=(self.end, self.start, self.high_watermark))
        assert not self.log.recovery.changed

    @rule()
    def kill_and_start(self) -> None:
        self.reopen(clean=False, known=self.checkpoint)
        assert self.log.recovery.truncated_bytes == 0

    @precondition(lambda self: self.batches and self.batches[-1][0].last_offset >= max(self.start, self.high_watermark))
    @rule(lost=st.integers(1, 30))
    def kill_during_an_append(self, lost: int) -> None:
        active = bases(self.log)[-1]
        if self.batches[-1][0].base_offset < active:
            return
        path = self.folder / "topic-0" / f"{active:020d}.log"
        path.write_bytes(path.read_bytes()[:-lost])
        self.end = self.batches.pop()[0].base_offset
        self.checkpoint = (min(self.checkpoint[0], active), *self.checkpoint[1:])
        self.reopen(clean=False, known=self.checkpoint)
        assert self.log.recovery.truncated_bytes > 0

    def reopen(self, *, clean: bool, known: tuple[int, int, int]) -> None:
        recovery_point, start, high_watermark = known
        self.log = open_log(
            self.folder,
            CONFIG,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=start,
            high_watermark=high_watermark,
        )
        self.high_watermark = self.log.high_watermark
        # A log start moved by retention without a checkpoint shows in the files only.
        assert self.log.log_start_offset <= self.start
        self.log.update_high_watermark(max(self.high_watermark, self.start))
        self.high_watermark = self.log.high_watermark
        self.log.advance_log_start(self.start)

    # Invariants

    def boundaries(self) -> list[int]:
        """Return the offsets valid for truncation: batch ends at or after the log start."""
        return [header.base_offset for header, _ in self.batches if header.base_offset >= self.start]

    def visible(self) -> list[tuple[BatchHeader, bytes]]:
        return [(header, raw) for header, raw in self.batches if header.last_offset >= self.start]

    @invariant()
    def log_ends_match_the_model(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (
            self.start,
            self.end,
            self.high_watermark,
        )
        assert log.recovery_point <= self.end

    @invariant()
    def read_from_the_start_returns_all_batches(self) -> None:
        offset, found = self.start, b""
        while offset < self.end:
            [part] = self.log.read(offset, 333, limit_offset=self.end).slices
            step = part.read(0, part.size_bytes)
            found += step
            offset = [header.next_offset for _, header in iter_batches(step)][-1]
        assert found == b"".join(raw for _, raw in self.visible())

    @rule(max_bytes=st.integers(1, 900), min_one=st.booleans())
    def reads_return_whole_batches_below_the_limit(self, max_bytes: int, min_one: bool) -> None:
        limits = [self.start, self.high_watermark, self.end, *self.boundaries()[::3]]
        for offset in range(self.start, self.end + 1):
            for limit in limits:
                wanted = [raw for header, raw in self.batches if offset <= header.last_offset < limit]
                slices, size = self.log.read(offset, max_bytes, limit_offset=limit, min_one=min_one)
                found = b"".join(part.read(0, part.size_bytes) for part in slices)
                sizes = [header.size_bytes for _, header in iter_batches(found)]
                assert size == len(found) == sum(sizes)
                assert b"".join(wanted).startswith(found)
                assert size <= max_bytes or (min_one and len(sizes) == 1)
                assert found or not wanted or not (min_one or len(wanted[0]) <= max_bytes)

    @rule(offset=st.sampled_from([-1, 1]))
    def read_outside_the_log_is_rejected(self, offset: int) -> None:
        with pytest.raises(KafkaError) as refused:
            self.log.read(self.start - 1 if offset < 0 else self.end + 1, 100, limit_offset=self.end)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    @rule()
    def timestamp_lookup_returns_the_first_record_at_or_after(self) -> None:
        records = [
            (record.timestamp, record.offset, header.partition_leader_epoch)
            for header, raw in self.visible()
            for record in iter_records(raw)
            if record.offset >= self.start
        ]
        for timestamp in range(NOW_MS - 51, NOW_MS + 52):
            expected = next((found for found in records if found[0] >= timestamp), None)
            assert finish(self.log.offset_for_timestamp(timestamp)) == expected

    @invariant()
    def epochs_are_those_of_the_batches(self) -> None:
        expected: list[tuple[int, int]] = []
        for header, _ in self.visible():
            if not expected or expected[-1][0] != header.partition_leader_epoch:
                expected.append((header.partition_leader_epoch, max(header.base_offset, self.start)))
        assert not expected or list(self.log.leader_epochs.entries) == expected


TestLogIsAList = LogIsAList.TestCase
TestLogIsAList.settings = settings(max_examples=examples(150), stateful_step_count=20, deadline=None)
