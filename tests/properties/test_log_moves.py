"""A log that moves between directories stays the list of batches that was written, under any operations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import mkdtemp

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from protocol.record_batch import BatchHeader, iter_batches, read_header
from storage.disk import OsDisk
from storage.future_replicas import FutureReplica
from storage.log.log import Log, LogConfig
from storage.log_manager import LogManager
from storage.steps import Step, Steps
from tests.examples import examples
from tests.logs import NOW_MS, TOPIC_ID, batch, content

CONFIG = LogConfig(segment_bytes=300_000, file_delete_delay_ms=0)
SIZES = st.lists(st.sampled_from([10, 500, 40_000, 100_000]), min_size=1, max_size=12)


class MovingLog(RuleBasedStateMachine):
    """`batches` is the model: (header, bytes) of every batch of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="moves-"))
        self.random = Random(1)
        self.batches: list[tuple[BatchHeader, bytes]] = []
        self.start = self.end = self.epoch = 0
        self.begin()
        self.log: Log = self.logs.create("t", TOPIC_ID, 0, CONFIG)

    def begin(self) -> None:
        paths = [str(self.folder / name) for name in "abc"]
        self.logs = LogManager(OsDisk(), paths, CONFIG, now_ms=lambda: NOW_MS, random=self.random)
        self.logs.open()
        self.logs.format("WV5yoIVIQ7q2wIB0pOwZQg", 1)
        for log in self.logs.load():
            self.log = log
        self.move: FutureReplica | None = None
        self.steps_since_take_over = 0
        self.steps: Steps[None]
        self.advance: Callable[[], Step]

    def teardown(self) -> None:
        self.logs.close(clean=False)
        rmtree(self.folder)

    @rule(sizes=SIZES, new_leader=st.booleans())
    def append(self, sizes: list[int], new_leader: bool) -> None:
        self.epoch += new_leader
        for size in sizes:
            records = batch(1 + size % 3, size=size)
            self.log.append_as_leader(records, self.epoch, NOW_MS)
            self.batches.append((read_header(records), bytes(records)))
        self.end = self.log.log_end_offset
        self.log.update_high_watermark(self.end)

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.start += int((self.end - self.start) * share)
        self.logs.delete_records(self.log, self.start)
        self.logs.save_log_starts()

    @precondition(lambda self: self.batches and self.batches[-1][0].base_offset > self.start)
    @rule()
    def truncate(self) -> None:
        header, _ = self.batches.pop()
        self.end = header.base_offset
        self.log.truncate_to(self.end)
        self.logs.checkpoint()

    @rule(directory=st.integers(0, 2))
    def request_move(self, directory: int) -> None:
        known = self.move
        begun = self.logs.moves.begin(self.log, self.logs.directories[directory])
        if begun is not None:
            self.move, self.steps, self.steps_since_take_over = begun, self.logs.moves.steps(begun), 0
            self.advance = partial(next, self.steps)
        elif known is not None and known not in self.logs.moves:
            self.move = None

    @precondition(lambda self: self.move is not None)
    @rule(count=st.sampled_from([1, 2, 5, 100]))
    def go_on(self, count: int) -> None:
        for _ in range(count):
            try:
                step = self.advance()
            except StopIteration:
                assert self.move is not None
                assert self.logs.directory_of(self.log) is self.move.target
                self.move = None
                return
            self.steps_since_take_over += self.move is not None and self.move.promoted
            self.advance = partial(self.steps.send, None if step is None else step())

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.logs.close(clean=clean)
        self.begin()
        self.log.update_high_watermark(self.end)

    @rule()
    def run_maintenance(self) -> None:
        assert not any([*self.logs.apply_retention(NOW_MS), *self.logs.delete_files(NOW_MS)])

    @invariant()
    def log_equals_the_model(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (self.start, self.end, self.end)
        left = [data for header, data in self.batches if header.last_offset >= self.start]
        assert content(log) == b"".join(left)
        epochs = {header.partition_leader_epoch for _, header in iter_batches(content(log))}
        assert epochs <= {entry.epoch for entry in log.leader_epochs.entries}

    @invariant()
    def log_is_in_one_directory(self) -> None:
        home = self.logs.directory_of(self.log)
        assert self.log.directory == f"{home.path}/t-0"
        places = [path for path in self.folder.glob("*/t-0") if path != Path(self.log.directory)]
        # Both names exist from the sync of the new name until the next step, which removes the old one and syncs that.
        assert len(places) == (self.move is not None and self.steps_since_take_over == 1)


def test_log_is_in_one_directory_after_each_move_step() -> None:
    machine = MovingLog()
    machine.request_move(directory=1)
    seen = []
    while machine.move is not None:
        machine.go_on(count=1)
        machine.log_is_in_one_directory()
        seen.append(machine.steps_since_take_over)
    machine.teardown()
    assert seen == [0, 0, 1, 2, 2]


TestMovesKeepTheLog = MovingLog.TestCase
TestMovesKeepTheLog.settings = settings(max_examples=examples(30), stateful_step_count=25, deadline=None)
