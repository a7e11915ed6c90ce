"""Compaction against a dict: whatever is appended and compacted, a reader's table equals the dict."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from protocol.compression import Compression
from protocol.record import Record
from protocol.record_batch import iter_batches, iter_records
from storage.log.log import Log
from storage.steps import finish as found_by
from tests.compacted import COMPACTED, begin, end_txn, finish, latest, put, records
from tests.examples import examples
from tests.logs import NOW_MS, content, open_log

KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
VALUES = st.one_of(st.none(), st.binary(max_size=40))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)
CODECS = st.sampled_from([Compression.NONE, Compression.GZIP, Compression.ZSTD])
RETENTION_MS = COMPACTED.delete_retention_ms
OPENED = 5  # the producer whose transaction stays open across rules


class CompactedLog(RuleBasedStateMachine):
    """`written` is every committed record, by offset; `pending` those of the open transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.log: Log = open_log(Path(self.folder.name), COMPACTED._replace(segment_bytes=500))
        self.written: dict[int, Record] = {}
        self.pending: list[Record] = []
        self.now_ms = NOW_MS
        self.sequences: dict[int, int] = {}
        self.reader: dict[bytes | None, bytes] = {}
        self.reader_at = 0
        self.reader_began_ms = NOW_MS

    @initialize(lag_ms=st.sampled_from([0, RETENTION_MS]), interval=st.sampled_from([0, 100, 4096]))
    def begin(self, lag_ms: int, interval: int) -> None:
        self.log.config = self.log.config._replace(min_compaction_lag_ms=lag_ms, index_interval_bytes=interval)
        self._append([(b"a", b"first")], 0)

    @rule(pairs=PAIRS, codec=CODECS, producer=st.integers(0, 2))
    def append(self, pairs: list[tuple[bytes, bytes | None]], codec: Compression, producer: int) -> None:
        self._append(pairs, producer, compression=codec)

    @rule(pairs=PAIRS, commit=st.booleans(), producer=st.integers(3, 4))
    def transact(self, pairs: list[tuple[bytes, bytes | None]], commit: bool, producer: int) -> None:
        self._append(pairs, producer, counts=commit, is_transactional=True)
        end_txn(self.log, producer, commit=commit)

    @rule(pairs=PAIRS)
    def append_to_the_open_transaction(self, pairs: list[tuple[bytes, bytes | None]]) -> None:
        self.pending += self._append(pairs, OPENED, counts=False, is_transactional=True)

    @precondition(lambda self: self.pending)
    @rule(commit=st.booleans())
    def end_the_open_transaction(self, commit: bool) -> None:
        end_txn(self.log, OPENED, commit=commit)
        if commit:
            self.written |= {record.offset: record for record in self.pending}
        self.pending.clear()

    def _append(
        self, pairs: list[tuple[bytes, bytes | None]], producer: int, *, counts: bool = True, **fields: Any
    ) -> list[Record]:
        if producer:
            sequence = self.sequences.get(producer, 0)
            fields |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            self.sequences[producer] = sequence + len(pairs)
        first = put(self.log, *pairs, now_ms=self.now_ms, **fields)
        made = [Record(first + number, self.now_ms, key, value) for number, (key, value) in enumerate(pairs)]
        if counts:
            self.written |= {record.offset: record for record in made}
        return made

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule(keys=st.integers(2, 8), budget=st.sampled_from([1, 300, 1 << 20]), again=st.booleans(), roll=st.booleans())
    def compact(self, keys: int, budget: int, again: bool, roll: bool) -> None:
        if roll:
            self.log.roll(self.now_ms)
        before = records(self.log)
        lag_ms = self.log.config.min_compaction_lag_ms
        stays_from = min(self.log.segments[-1].base_offset, self.log.last_stable_offset)
        compaction = begin(
            self.log,
            now_ms=self.now_ms,
            cleaned_to=None if again else self.log.cleaned_to,
            memory_bytes=24 * keys,
            chunk_bytes=1024,
        )
        finish(compaction, budget)
        assert compaction.cleaned_to is not None
        stay = {one.offset for one in before if one.offset >= stays_from or one.timestamp > self.now_ms - lag_ms}
        assert stay <= {record.offset for record in records(self.log)}

    @rule(steps=st.integers(1, 60), roll=st.booleans())
    def crash_amid_compaction(self, steps: int, roll: bool) -> None:
        if roll:
            self.log.roll(self.now_ms)
        compaction = begin(self.log, now_ms=self.now_ms, cleaned_to=self.log.cleaned_to, chunk_bytes=1024)
        for _ in range(steps):
            call = compaction.step(1)
            if call is not None:
                call()
        self._reopen(clean=False)

    @rule(ms=st.sampled_from([1, RETENTION_MS // 2, RETENTION_MS]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean:
            self.log.close(self.now_ms)
        self._reopen(clean=clean)

    def _reopen(self, *, clean: bool) -> None:
        before, cleaned_to = self.log, self.log.cleaned_to
        producers = {of: entry.batches[-1] for of, entry in before.producers.producers.items()}
        self.log = open_log(Path(self.folder.name), before.config, clean=clean, high_watermark=before.log_end_offset)
        self.log.cleaned_to = cleaned_to
        assert self.log.log_end_offset == before.log_end_offset
        assert self.log.last_stable_offset == before.last_stable_offset
        assert {of: entry.batches[-1] for of, entry in self.log.producers.producers.items()} == producers

    @rule(count=st.integers(1, 5))
    def read_slowly(self, count: int) -> None:
        """A reader no slower than the tombstone retention ends with the table."""
        if self.now_ms - self.reader_began_ms >= RETENTION_MS:
            self.reader, self.reader_at, self.reader_began_ms = {}, 0, self.now_ms
        stable = self.log.last_stable_offset
        ahead = [record for record in self._committed() if self.reader_at <= record.offset < stable]
        for record in ahead[:count]:
            self._see(record)
        if not ahead[count:]:
            assert self.reader == latest(one for one in self._all_written() if one.offset < stable)

    def _see(self, record: Record) -> None:
        self.reader_at = record.offset + 1
        if record.value is None:
            self.reader.pop(record.key, None)
        else:
            self.reader[record.key] = record.value

    def _committed(self) -> list[Record]:
        """Return the remaining records, without those of open transactions and of uncleaned aborted ones."""
        return [record for record in records(self.log) if record.offset in self.written]

    def _all_written(self) -> list[Record]:
        return [self.written[offset] for offset in sorted(self.written)]

    @rule(share=st.floats(0, 1))
    def fetch_from_anywhere(self, share: float) -> None:
        """A fetch from a compacted offset returns the next record."""
        offset = int(share * self.log.log_end_offset)
        slices = self.log.read(offset, 1, limit_offset=self.log.log_end_offset).slices
        data = b"".join(bytes(part.read(0, part.size_bytes)) for part in slices)
        following = [header for _, header in iter_batches(content(self.log)) if header.last_offset >= offset]
        assert [header for _, header in iter_batches(data)] == following[:1]

    @rule(ms=st.integers(-1, 3 * RETENTION_MS))
    def look_up_a_timestamp(self, ms: int) -> None:
        data = content(self.log)
        everything = [
            record for at, header in iter_batches(data) for record in iter_records(data[at : at + header.size_bytes])
        ]
        first = next((record for record in everything if record.timestamp >= NOW_MS + ms), None)
        found = found_by(self.log.offset_for_timestamp(NOW_MS + ms))
        assert (found and (found.offset, found.timestamp)) == (first and (first.offset, first.timestamp))

    @invariant()
    def readers_have_the_table(self) -> None:
        assert latest(self._committed()) == latest(self._all_written())

    @invariant()
    def remaining_records_are_unchanged(self) -> None:
        left = self._committed()
        assert [self.written[record.offset] for record in left] == left
        kept = {record.offset for record in records(self.log)}
        assert all(record.offset in kept for record in self.pending)

    def teardown(self) -> None:
        self.folder.cleanup()


def test_rule_19_last_record_of_each_key_keeps_its_offset() -> None:
    """Also shows rule 20: `read_slowly` sees every tombstone in time, and each record once its tombstone is gone."""
    run_state_machine_as_test(
        CompactedLog, settings=settings(max_examples=examples(40), stateful_step_count=30, deadline=None)
    )
