"""Future replicas: logs that move between data directories of one broker (KIP-113, Kafka: `futureLogs`).

    copying     `<topic>-<partition>.<id>-future` in the target is filled like a follower's log: complete batches, with
                their offsets and epochs. The log stays in its directory, and is written and read there.
    synced      what is durable of the log is durable of the copy, and so is the copy's name.
    promoted    in one step, once the copy has everything: it gets the log's name, and the log continues in its files.
    retired     the new name is durable; the old files are renamed to `-delete`, durably too before the move completes:
                after the log is deleted, a power cut could otherwise restore them as a log.

Until the copy is renamed, a start finds the log in the source directory; from then on in the target. Between the rename
and the last step both directories have the partition's name, and a power cut may keep either rename: so each copy
stores in `partition.moves` how often its log has been moved, and a start opens the one with the larger number. A move
that a shutdown or crash interrupted starts over: `load` deletes the copy, since the log may have been truncated.

A truncation of the log makes its copy start over. A failure ends the move, not the log. The broker drives the steps
(`broker/log_dirs/replica_alter_log_dirs.py`) and reports to the controller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import read_header
from storage.checkpoint import TopicPartition
from storage.disk import Buffer, Disk
from storage.former_replicas import MOVES_FILE, moves_of
from storage.log.config import FOREVER
from storage.log.files import LogFiles
from storage.log.loader import open_log
from storage.log.log import Log
from storage.log.names import FUTURE_SUFFIX, unique_name

if TYPE_CHECKING:
    from random import Random

    from storage.deletion_queue import DeletionQueue
    from storage.log_directory import LogDirectory
    from storage.steps import Steps

# Less than 1 ms of work, 3 ms if batches are tiny.
_STEP_BYTES = 64 * 1024
# How often the copy is synced in a thread before the final sync on the loop; each time fewer records are left.
_SYNCS = 4
_ANY_EPOCH = 2**31 - 1


class FutureReplica:
    """A log, and the copy of it that is made in `target`."""

    __slots__ = ("_truncations", "copied_bytes", "copy", "log", "promoted", "source", "target")

    def __init__(self, log: Log, copy: Log, source: LogDirectory, target: LogDirectory) -> None:
        self._truncations = log.truncations
        self.log = log
        self.copy = copy
        self.source = source
        self.target = target
        self.promoted = False
        self.copied_bytes = 0

    def copy_all(self, now_ms: Callable[[], int]) -> Steps[None]:
        """Copy the log until the copy has all of its batches and is as durable.

        No other work runs between the last check and the return.
        """
        log, copy = self.log, self.copy
        yield from self._catch_up(now_ms)
        for _ in range(_SYNCS):
            flush = copy.begin_flush(now_ms())
            if flush is not None:
                yield flush.sync
                flush.finish()
            yield from self._catch_up(now_ms)
            if copy.recovery_point >= log.recovery_point:
                return
        copy.flush(now_ms())

    def _catch_up(self, now_ms: Callable[[], int]) -> Steps[None]:
        log, copy = self.log, self.copy
        size_bytes, copied = log.size_bytes, 0
        while True:
            if log.truncations != self._truncations:
                self._truncations = log.truncations
                copy.truncate_fully_and_start_at(log.log_start_offset)
            offset = max(copy.log_end_offset, log.log_start_offset)
            if offset >= log.log_end_offset:
                if copy.log_end_offset < offset:
                    copy.truncate_fully_and_start_at(offset)
                return
            slices = log.read(offset, _STEP_BYTES, limit_offset=log.log_end_offset).slices
            if not slices:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{log} has no batch at {offset}")
            [part] = slices
            with self.source.storage_errors():
                data = part.read_nowait(0, part.size_bytes)
                if data is None:
                    data = yield partial(part.read, 0, part.size_bytes)
            if log.truncations != self._truncations:
                continue
            self._append(data, now_ms())
            copied += len(data)
            flush = copy.due_flush(now_ms())  # of rolled segments
            if flush is not None:
                yield flush.sync
                flush.finish()
                copy.release()
            # Copy more per step than is written between the steps, or the copy never catches up.
            if copied >= max(_STEP_BYTES // 2, 2 * (log.size_bytes - size_bytes)):
                size_bytes, copied = log.size_bytes, 0
                yield None

    def _append(self, data: Buffer, now_ms: int) -> None:
        copy = self.copy
        if copy.size_bytes == 0:
            # The first batch may begin before the log start, where records were deleted.
            start = min(read_header(data).base_offset, self.log.log_start_offset)
            if start != copy.log_end_offset:
                copy.truncate_fully_and_start_at(start)
        copy.append_as_follower(data, _ANY_EPOCH, now_ms)
        self.copied_bytes += len(data)


class Logs(Protocol):
    """The part of the log manager that moves use."""

    directories: list[LogDirectory]
    problems: list[str]
    deletion_queue: DeletionQueue

    def directory_of(self, log: Log) -> LogDirectory:
        """Return the data directory of a log."""

    def checkpoint_one(self, log: Log, directory: LogDirectory, copy: Log) -> None:
        """Write the checkpoint entries of a log that is about to move to `directory`, where it is as `copy` is."""

    def set_log_dir(self, log: Log, directory: LogDirectory) -> None:
        """Record that a log is in `directory` now."""


class FutureReplicas:
    """The moves of one manager's logs."""

    def __init__(self, logs: Logs, disk: Disk, *, now_ms: Callable[[], int], random: Random) -> None:
        self._logs = logs
        self._disk = disk
        self._now_ms = now_ms
        self._random = random
        self._moves: dict[Log, FutureReplica] = {}
        # The targets of the moves that the last shutdown interrupted.
        self.interrupted: dict[TopicPartition, LogDirectory] = {}

    def __iter__(self) -> Iterator[FutureReplica]:
        return iter(list(self._moves.values()))

    def __contains__(self, move: FutureReplica) -> bool:
        """Return whether a move is in progress."""
        return self._moves.get(move.log) is move

    def is_moving(self, log: Log) -> bool:
        """Return whether a log is being moved."""
        return log in self._moves

    def begin(self, log: Log, target: LogDirectory) -> FutureReplica | None:
        """Begin to move a log, instead of any other move of it; None if there is nothing to do.

        Raise KAFKA_STORAGE_ERROR if the copy cannot be created, or any directory is offline: the partition may have
        another log there.
        """
        known = self._moves.get(log)
        if known is not None:
            if known.target is target:
                return None
            self.cancel(log)
        source = self._logs.directory_of(log)
        if target is source:
            return None
        for directory in self._logs.directories:
            if directory.failure is not None:
                raise directory.offline()
        key = (log.topic, log.partition)
        name = unique_name(key, FUTURE_SUFFIX, self._random)
        try:
            copy = open_log(
                self._disk,
                target,
                *key,
                log.config._replace(flush_messages=FOREVER, flush_ms=FOREVER),  # the move decides when
                now_ms=self._now_ms(),
                topic_id=log.topic_id,
                name=name,
            )
        except KafkaError:
            self._discard(target, key, f"{target.path}/{name}", 0)
            raise
        if log.on_truncation is not None:
            log.on_truncation()  # no compaction during a move
        self._moves[log] = move = FutureReplica(log, copy, source, target)
        return move

    def cancel(self, log: Log) -> None:
        """End a move: delete the copy or, once that is promoted, the old files."""
        move = self._moves.pop(log, None)
        if move is None:
            return
        if move.promoted:
            try:
                with move.target.storage_errors():
                    self._disk.sync_dir(move.target.path)
                self._retire(move)
                with move.source.storage_errors():
                    self._disk.sync_dir(move.source.path)
            except KafkaError as error:
                self._logs.problems.append(str(error))
        else:
            self._discard(move.target, (log.topic, log.partition), move.copy.directory, 0)

    def steps(self, move: FutureReplica) -> Steps[None]:
        """Perform a move; not to be resumed after `cancel`. Raise KafkaError if it fails: the caller cancels it."""
        with move.target.storage_errors():
            text = b"%d\n" % (moves_of(self._disk, move.log.directory) + 1)
            yield partial(self._disk.replace_file, f"{move.copy.directory}/{MOVES_FILE}", text)
        yield from move.copy_all(self._now_ms)
        self._promote(move)
        with move.target.storage_errors():
            yield partial(self._disk.sync_dir, move.target.path)
        self._retire(move)
        with move.source.storage_errors():
            yield partial(self._disk.sync_dir, move.source.path)
        del self._moves[move.log]

    def close(self) -> None:
        """Complete the moves whose copies are promoted; the others start over after the next start."""
        for move in self:
            if move.promoted:
                self.cancel(move.log)
        self._moves.clear()

    def _promote(self, move: FutureReplica) -> None:
        log, copy, target = move.log, move.copy, move.target
        with target.storage_errors():
            LogFiles(self._disk, copy.directory).save_epochs(log.leader_epochs)
        self._logs.checkpoint_one(log, target, copy)
        with target.storage_errors():
            self._disk.rename(copy.directory, f"{target.path}/{log}")
        log.promote(copy, target)
        self._logs.set_log_dir(log, target)
        move.promoted = True

    def _retire(self, move: FutureReplica) -> None:
        log = move.log
        self._discard(
            move.source, (log.topic, log.partition), f"{move.source.path}/{log}", log.config.file_delete_delay_ms
        )

    def _discard(self, directory: LogDirectory, key: TopicPartition, path: str, delay_ms: int) -> None:
        """Rename files for deletion; if that fails, the next start does it."""
        try:
            if directory.failure is None and self._disk.exists(path):
                self._logs.deletion_queue.rename_away(directory, key, path, delay_ms=delay_ms)
        except KafkaError as error:
            self._logs.problems.append(str(error))
