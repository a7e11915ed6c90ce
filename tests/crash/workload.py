"""A random history of a data directory: the changes that producers, coordinators, followers, admins and timers make.

Every action calls the production `LogManager` as the broker does, and is followed by a mark in the trace with the
promises from then on. The model is minimal: batches in a list. After a kill of the process, which loses nothing, the
directory is checked at once; power cuts are checked in `states.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random

from protocol.errors import KafkaError
from protocol.record_batch import ControlType, assign, build_batch, control_record_key, read_header
from simulation.memory_disk import Effect, Mark, MemoryDisk
from storage.cleaner.cleaner_manager import CleanerConfig, CleanerManager
from storage.cleaner.cleaner_pass import CleanerPass
from storage.log.config import FOREVER
from storage.log.flush import Flush
from storage.log.log import Log, LogConfig
from storage.log_directory import LogDirectory
from storage.log_manager import LogManager
from storage.steps import Steps
from tests.crash.broken import Broken, DiskNeeded, Invariant
from tests.crash.checks import check_log, stored
from tests.crash.promises import Promise, Stored, Version

NOW_MS = 1_700_000_000_000
DIRECTORIES = ("/a", "/b")
CLUSTER = "WV5yoIVIQ7q2wIB0pOwZQg"
INTERVAL_BYTES = 1024
DEFAULT = LogConfig(index_interval_bytes=INTERVAL_BYTES, file_delete_delay_ms=1000)
PRODUCERS = (1, 2, 3)
RETAINED = DEFAULT.cleanup_policy
COMPACTED = frozenset({"compact"})
DELETE_RETENTION_MS = 2000


class Life:
    """The model of one topic's log."""

    def __init__(self, config: LogConfig, topic_id: bytes) -> None:
        self.config = config
        self.topic_id = topic_id
        self.versions = [Version(0, [])]
        self.durable_end = self.acknowledged_end = 0
        self.start = 0
        self.exists = True
        self.cleaned = self.decided = 0
        self.created_durably = False
        self.flush: Flush | None = None
        self.truncations = 0

    @property
    def version(self) -> Version:
        return self.versions[-1]

    def promise(self) -> Promise:
        return Promise(
            tuple(self.versions),
            tuple(len(version.batches) for version in self.versions),
            self.durable_end,
            self.start,
            self.created_durably,
            self.cleaned,
            self.decided,
        )

    def change(self, version: Version) -> None:
        """Replace the version durably."""
        self.versions = [version]

    def flushed(self, end: int) -> None:
        """Record that everything below `end` is durable; if that is the whole log, former versions are gone.

        A lost log without a batch is created again from the cluster metadata.
        """
        if not end:
            return
        self.durable_end = max(self.durable_end, end)
        self.created_durably = True
        if end == self.version.end_offset:
            self.versions = [self.version]


def start(disk: MemoryDisk, clock: Callable[[], int], random: Random) -> LogManager:
    """Open the data directories and every log in them, as a broker does."""
    manager = LogManager(disk, DIRECTORIES, DEFAULT, now_ms=clock, random=random)
    manager.open()
    manager.format(CLUSTER, 1)
    for _ in manager.load():
        pass
    return manager


class Workload:
    """A manager on `disk` under random actions; `lives` are the models of an earlier workload, if any."""

    def __init__(self, disk: MemoryDisk, random: Random, lives: dict[str, Life] | None = None) -> None:
        self.disk = disk
        self.random = random
        self.now = NOW_MS
        self.lives = lives if lives is not None else {}
        self.known: dict[str, Promise] = {}
        self.doing: Callable[[Workload, str], None] | None = None
        last = (life.version.batches[-1] for life in self.lives.values() if life.version.batches)
        self._epoch = 1 + max((batch.header.partition_leader_epoch for batch in last), default=0)
        self._moves: dict[str, Steps[None]] = {}
        self.manager = self._start()
        self._compactor = CleanerManager(disk, self.manager, now_ms=lambda: self.now)
        self._compaction: CleanerPass | None = None
        self._call: Callable[[], object] | None = None
        self.mark()

    def run(self, actions: int) -> None:
        """Run this many random actions."""
        kinds = [kind for kind, _ in _ACTIONS]
        weights = [weight for _, weight in _ACTIONS]
        for kind in self.random.choices(kinds, weights, k=actions):
            if len(self.lives) < 2 or (len(self.lives) < 3 and self.random.random() < 0.02):
                self.create()
            name = self.random.choice(list(self.lives))
            self.now += self.random.choice((1, 10, 400))
            self.doing = kind
            kind(self, name)
            self.mark()

    def mark(self) -> None:
        """Record the present promises in the trace."""
        self.known = {name: life.promise() for name, life in self.lives.items()}
        trace: list[Effect] | None = self.disk.trace
        if trace is not None:
            trace.append(Mark(self.known))

    def log(self, name: str) -> Log:
        log = self.manager.get(name, 0)
        if log is None:
            raise DiskNeeded(f"{name} is not open: {self.manager.problems}")
        return log

    def _start(self) -> LogManager:
        manager = start(self.disk, lambda: self.now, self.random)
        for name, life in self.lives.items():
            log = manager.get(name, 0)
            if log is not None:
                log.config = life.config
        return manager

    # Topics

    def create(self) -> None:
        name = next(name for name in ("red", "green", "blue") if name not in self.lives)
        random = self.random
        config = DEFAULT._replace(
            segment_bytes=random.choice((6000, 10000, 20000)),
            flush_messages=random.choice((1, 4, FOREVER, FOREVER)),
            flush_ms=random.choice((500, FOREVER)),
            retention_bytes=random.choice((-1, 15000)),
            cleanup_policy=random.choice((RETAINED, RETAINED, COMPACTED)),
            min_cleanable_dirty_ratio=0.0,
            delete_retention_ms=DELETE_RETENTION_MS,
        )
        self._make(name, config)
        self.mark()

    def _make(self, name: str, config: LogConfig) -> None:
        topic_id = self.random.randbytes(16)
        directory = self.random.choice(self.manager.directories)
        self.manager.create(name, topic_id, 0, config, directory.directory_id)
        self.lives[name] = Life(config, topic_id)

    def recreate(self, name: str) -> None:
        """Delete a topic, and create one of the same name."""
        life = self.lives[name]
        life.exists = life.created_durably = False
        self.mark()
        self.manager.delete(name, 0)
        former = life.versions
        self._make(name, life.config)
        self.lives[name].versions = [*former, *self.lives[name].versions]
        self.lives[name].cleaned, self.lives[name].decided = life.cleaned, life.decided

    # Records

    def append(self, name: str) -> None:
        """Append a producer's next batch, plain, idempotent or transactional, as the leader."""
        producer = self.random.choice((None, *PRODUCERS))
        fields: dict[str, object] = {}
        if producer is not None:
            entry = self.log(name).producers.producers.get(producer)
            in_transaction = entry is not None and entry.txn_first_offset >= 0
            epoch = 0 if entry is None else entry.epoch
            sequence = 0
            if entry is not None and entry.batches:
                sequence = entry.batches[-1].last_sequence + 1
            if entry is not None and not in_transaction and self.random.random() < 0.05:
                epoch, sequence = epoch + 1, 0
            fields = {
                "producer_id": producer,
                "producer_epoch": epoch,
                "base_sequence": sequence,
                "is_transactional": in_transaction or self.random.random() < 0.2,
            }
        self._appended(name, self._batch(**fields))

    def end_transaction(self, name: str) -> None:
        """Append the marker of an open transaction."""
        for producer, entry in self.log(name).producers.producers.items():
            if entry.txn_first_offset >= 0:
                kind = self.random.choice((ControlType.COMMIT, ControlType.ABORT))
                marker = build_batch(
                    [(control_record_key(kind), bytes(6))],
                    timestamp_ms=self.now,
                    is_control=True,
                    is_transactional=True,
                    producer_id=producer,
                    producer_epoch=entry.epoch,
                )
                self._followed(name, [marker])
                return

    def follow(self, name: str) -> None:
        """Append several batches at once, as a follower."""
        self._followed(name, [self._batch() for _ in range(self.random.randrange(1, 5))])

    def new_epoch(self, name: str) -> None:
        """Start the epoch of another leader."""
        self._epoch += 1
        self.log(name).assign_leader_epoch(self._epoch)

    def _batch(self, **fields: object) -> bytearray:
        random = self.random
        size = random.choice((10, 100, 100, 900, 900, 5000))
        count = random.choice((1, 1, 1, 2, 5))
        key = b"k%d" % random.randrange(6)
        records: list[tuple[bytes, bytes | None]] = [(key, random.randbytes(size // count + 1)) for _ in range(count)]
        if random.random() < 0.1:
            records[-1] = (key, None)
        timestamp = self.now - random.choice((0, 0, 0, 700))
        return build_batch(records, timestamp_ms=timestamp, **fields)  # type: ignore[arg-type]

    def _appended(self, name: str, batch: bytearray) -> None:
        log = self.log(name)
        epoch = log.leader_epochs.latest or self._epoch
        try:
            log.append_as_leader(batch, epoch, self.now)
        except KafkaError:
            self._maybe_written(name, stored(bytes(batch)))
            raise
        self._written(name, stored(bytes(batch)))

    def _followed(self, name: str, batches: list[bytearray]) -> None:
        log = self.log(name)
        epoch = log.leader_epochs.latest or self._epoch
        offset = log.log_end_offset
        for batch in batches:
            assign(batch, offset, epoch)
            offset = read_header(batch).next_offset
        data = b"".join(batches)
        try:
            log.append_as_follower(data, epoch, self.now)
        except KafkaError:
            self._maybe_written(name, stored(data))
            raise
        self._written(name, stored(data))

    def _maybe_written(self, name: str, batches: list[Stored]) -> None:
        """Record batches that are refused but may be on disk, as after a failed sync."""
        version = self.lives[name].version
        if batches[0].base_offset == version.end_offset:
            for batch in batches:
                version.append(batch)
            self.mark()

    def _written(self, name: str, batches: list[Stored]) -> None:
        log, life = self.log(name), self.lives[name]
        for batch in batches:
            life.version.append(batch)
        life.acknowledged_end = log.log_end_offset
        # The log never has `flush.messages` or more unsynced records.
        synced = log.log_end_offset - life.config.flush_messages + 1
        if synced > life.durable_end:
            life.flushed(synced)
        if self.random.random() < 0.8:
            log.update_high_watermark(log.log_end_offset)

    # Durability

    def flush(self, name: str) -> None:
        log, life = self.log(name), self.lives[name]
        log.flush(self.now)
        life.flushed(log.log_end_offset)

    def begin_flush(self, name: str) -> None:
        """Begin a flush; other actions may run before `end_flush`."""
        log, life = self.log(name), self.lives[name]
        if life.flush is None:
            life.flush, life.truncations = log.begin_flush(self.now), log.truncations

    def end_flush(self, name: str) -> None:
        life = self.lives[name]
        flush, life.flush = life.flush, None
        if flush is not None:
            flush.sync()
            flush.finish()
            if self.log(name).truncations == life.truncations:
                life.flushed(flush.end_offset)

    def due_flushes(self, name: str) -> None:
        for name, life in self.lives.items():
            flush = self.log(name).due_flush(self.now)
            if flush is not None:
                flush.run()
                life.flushed(flush.end_offset)

    def checkpoint(self, name: str) -> None:
        self.manager.checkpoint()

    def roll(self, name: str) -> None:
        self.log(name).roll(self.now)

    # Trimming

    def truncate(self, name: str) -> None:
        """Truncate to what another leader has: never below compacted records or the markers that they depend on."""
        log, life = self.log(name), self.lives[name]
        first = log.high_watermark if life.cleaned else log.log_start_offset
        # The high watermark may be an old checkpoint's. Compacted records and their markers are committed, so every
        # leader has them. A truncation within a compacted range would set a log end at which no batch ends; after a
        # restart the log end would be that of the last batch.
        offset = max(self.random.randint(first, log.log_end_offset), life.cleaned, life.decided)
        offset = min(offset, log.log_end_offset)
        kept = [batch for batch in life.version.batches if batch.next_offset <= offset]
        if len(kept) == len(life.version.batches):
            self.manager.truncate_to(log, offset)
            return
        cut = life.version.batches[len(kept)].base_offset
        life.durable_end = min(life.durable_end, cut)
        self.mark()
        self.manager.truncate_to(log, offset)
        life.acknowledged_end = min(life.acknowledged_end, cut)
        life.change(Version(life.version.origin, kept, [b for b in life.version.written if b.next_offset <= cut]))
        life.start = min(life.start, log.log_start_offset)
        self._new_leader(log)

    def truncate_fully(self, name: str) -> None:
        """Truncate the log fully and start at the leader's log start."""
        log, life = self.log(name), self.lives[name]
        offset = max(0, log.log_end_offset + self.random.randint(-3, 10))
        life.durable_end = 0
        self.mark()
        self.manager.truncate_fully_and_start_at(log, offset)
        life.change(Version(offset, []))
        life.acknowledged_end = offset
        life.start = offset
        life.cleaned = life.decided = 0
        self._new_leader(log)

    def _new_leader(self, log: Log) -> None:
        self._epoch += 1
        log.assign_leader_epoch(self._epoch)

    def delete_records(self, name: str) -> None:
        log, life = self.log(name), self.lives[name]
        life.start = max(life.start, self.random.randint(log.log_start_offset, log.high_watermark))
        self.mark()
        self.manager.delete_records(log, life.start)
        self.manager.save_log_starts()

    def retention(self, name: str) -> None:
        """Apply retention; the deleted segments are known only afterwards."""
        for name, life in self.lives.items():
            life.start = self.log(name).high_watermark
        self.mark()
        for failed in self.manager.apply_retention(self.now):
            if failed is not None:
                raise failed
        for name, life in self.lives.items():
            life.start = self.log(name).log_start_offset

    def delete_files(self, name: str) -> None:
        for failed in self.manager.delete_files(self.now):
            if failed is not None:
                raise failed

    # Compaction

    def compact(self, name: str) -> None:
        """Begin or continue a cleaner pass; other actions may run between its steps, and within a step."""
        if self._compaction is None or self._compaction.done:
            memory_bytes = self.random.choice((5 * 24, 1 << 20))
            config = CleanerConfig(memory_bytes, 0.9, self.random.choice((2048, 1 << 16)))
            self._compaction = next(filter(None, self._compactor.next(config)), None)
        compaction = self._compaction
        if compaction is None:
            return
        life = self.lives[compaction.log.topic]
        life.cleaned = max(life.cleaned, compaction.log.segments[-1].base_offset)
        life.decided = max(life.decided, compaction.log.high_watermark)
        self.mark()
        budget = self.random.choice((1, 10000, 1 << 20))
        for _ in range(self.random.choice((1, 5, 30, 100))):
            call, self._call = self._call, None
            if call is not None:
                call()
            if compaction.done:
                break
            self._call = compaction.step(budget)
        if compaction.done:
            self._compactor.finished(compaction)

    # Directories

    def move(self, name: str) -> None:
        """Begin a move to the other directory, or run its next step."""
        log = self.log(name)
        move = next((move for move in self.manager.moves if move.log is log), None)
        if move is None:
            move = self.manager.moves.begin(log, self._other(self.manager.directory_of(log)))
            if move is None:
                raise DiskNeeded(f"{name} does not move")
            self._moves[name] = self.manager.moves.steps(move)
            return
        steps, go_on = self._moves[name], partial(next, self._moves[name])
        with suppress(StopIteration):
            while (step := go_on()) is not None:
                self.mark()
                try:
                    go_on = partial(steps.send, step())
                except OSError as error:
                    go_on = partial(steps.throw, error)

    def _other(self, directory: LogDirectory) -> LogDirectory:
        return next(other for other in self.manager.directories if other is not directory)

    # The process

    def stop(self, name: str) -> None:
        """Stop cleanly and restart."""
        for each in self.lives:
            self.end_flush(each)
        if self._call is not None:
            self._call()  # a stop waits for it
        if self._compaction is not None:
            self._compaction.stop()
        for flush in list(self.manager.begin_close()):
            flush.run()
        if not self.manager.close():
            raise DiskNeeded(f"the stop was not clean: {self.manager.problems}")
        for life in self.lives.values():
            life.flushed(life.version.end_offset)
        self.mark()
        self._restarted()

    def kill(self, name: str) -> None:
        """Kill the process, which loses nothing, and restart."""
        for life in self.lives.values():
            life.flush = None
        self._restarted()

    def _restarted(self) -> None:
        self.manager = self._start()
        self._compactor = CleanerManager(self.disk, self.manager, now_ms=lambda: self.now)
        self._compaction = self._call = None
        for name, life in self.lives.items():
            everything = life.promise()._replace(
                versions=(life.version,),
                lengths=(len(life.version.batches),),
                durable_end=life.version.end_offset,
                exists=True,
            )
            if (begin := self.log(name).log_start_offset) != life.start:
                raise Broken(Invariant.START_STAYS, f"{name} begins at {begin} after a restart, not {life.start}")
            check_log(self.disk, f"{name} after a restart", self.log(name), everything, INTERVAL_BYTES)


_ACTIONS: tuple[tuple[Callable[[Workload, str], None], int], ...] = (
    (Workload.append, 60),
    (Workload.end_transaction, 10),
    (Workload.follow, 12),
    (Workload.new_epoch, 3),
    (Workload.flush, 5),
    (Workload.begin_flush, 4),
    (Workload.end_flush, 4),
    (Workload.due_flushes, 4),
    (Workload.checkpoint, 6),
    (Workload.roll, 2),
    (Workload.truncate, 4),
    (Workload.truncate_fully, 1),
    (Workload.delete_records, 3),
    (Workload.retention, 4),
    (Workload.delete_files, 3),
    (Workload.recreate, 1),
    (Workload.compact, 14),
    (Workload.move, 4),
    (Workload.stop, 2),
    (Workload.kill, 2),
)
