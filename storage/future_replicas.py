"""Logs on their way from one data directory to another of the same broker (KIP-113).

    copying     `<topic>-<partition>.<id>-future` in the target is filled as a follower's log is: whole batches as they
                lie, offsets and epochs kept. The log stays where it is, and is written and read there.
    synced      what is durable of the log is durable of the copy, and so is the copy's name.
    taken over  in one step, once the copy holds everything: it gets the log's name, and the log goes on in its files.
    retired     the new name is durable; the old files are renamed `-delete`, durably too before the move is over: once
                the log is deleted, a power cut would bring them back as a log.

Until the copy is renamed the log is where it was, whatever happens; from then on it is in the target. Between that
and the last step both directories hold the partition's name, and a power cut may show any of the two renames: so each
copy says in `partition.moves` how often its log has been moved, and the start goes on with the larger number. A move
that a stop or a crash interrupted begins anew: what `load` finds of its copy is deleted, since comparing it with a log
that may have been cut meanwhile saves nothing but time.

A log that is truncated makes its copy begin anew. What fails ends the move, not the log. Who drives the steps, and
tells the controller, is the broker's.
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

    from storage.deletion_queue import Trash
    from storage.log_directory import LogDirectory
    from storage.steps import Search

# Less than a millisecond's work, or three where batches are tiny.
_STEP_BYTES = 64 * 1024
# How often the copy is synced beside the loop; what is written meanwhile gets less each time.
_SYNCS = 4
_ANY_EPOCH = 2**31 - 1


class LogMove:
    """A log, and the copy that is made of it in `target`."""

    __slots__ = ("_cuts", "copied_bytes", "copy", "log", "source", "taken_over", "target")

    def __init__(self, log: Log, copy: Log, source: LogDirectory, target: LogDirectory) -> None:
        self._cuts = log.cuts
        self.log = log
        self.copy = copy
        self.source = source
        self.target = target
        self.taken_over = False
        self.copied_bytes = 0

    def copy_all(self, now_ms: Callable[[], int]) -> Search[None]:
        """Let the copy hold what the log holds, and be as durable; at the end nobody else has run since it does."""
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

    def _catch_up(self, now_ms: Callable[[], int]) -> Search[None]:
        log, copy = self.log, self.copy
        size_bytes, copied = log.size_bytes, 0
        while True:
            if log.cuts != self._cuts:
                self._cuts = log.cuts
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
            if log.cuts != self._cuts:
                continue
            self._append(data, now_ms())
            copied += len(data)
            flush = copy.due_flush(now_ms())  # of a segment that is complete
            if flush is not None:
                yield flush.sync
                flush.finish()
                copy.release()
            # Whoever writes while this waits must not be faster for ever.
            if copied >= max(_STEP_BYTES // 2, 2 * (log.size_bytes - size_bytes)):
                size_bytes, copied = log.size_bytes, 0
                yield None

    def _append(self, data: Buffer, now_ms: int) -> None:
        copy = self.copy
        if copy.size_bytes == 0:
            # The first batch may begin before the log does, where records were deleted.
            start = min(read_header(data).base_offset, self.log.log_start_offset)
            if start != copy.log_end_offset:
                copy.truncate_fully_and_start_at(start)
        copy.append_as_follower(data, _ANY_EPOCH, now_ms)
        self.copied_bytes += len(data)


class Logs(Protocol):
    """What a move asks of the manager whose log it is."""

    directories: list[LogDirectory]
    problems: list[str]
    trash: Trash

    def directory_of(self, log: Log) -> LogDirectory:
        """Return the directory that a log is in."""
        ...

    def checkpoint_one(self, log: Log, directory: LogDirectory, copy: Log) -> None:
        """Let the checkpoint files of `directory` tell of a log that is about to be in it, as `copy` is."""
        ...

    def rehome(self, log: Log, directory: LogDirectory) -> None:
        """Take note that a log is in `directory` now."""
        ...


class LogMoves:
    """The moves of the logs of one manager."""

    def __init__(self, logs: Logs, disk: Disk, *, now_ms: Callable[[], int], random: Random) -> None:
        self._logs = logs
        self._disk = disk
        self._now_ms = now_ms
        self._random = random
        self._moves: dict[Log, LogMove] = {}
        # Where the moves went that the last stop interrupted.
        self.interrupted: dict[TopicPartition, LogDirectory] = {}

    def __iter__(self) -> Iterator[LogMove]:
        return iter(list(self._moves.values()))

    def __contains__(self, move: LogMove) -> bool:
        """Tell whether a move is neither over nor cancelled."""
        return self._moves.get(move.log) is move

    def is_moving(self, log: Log) -> bool:
        """Tell whether a log is on its way."""
        return log in self._moves

    def begin(self, log: Log, target: LogDirectory) -> LogMove | None:
        """Begin to move a log, instead of moving it elsewhere; None if there is nothing to begin.

        KafkaError KAFKA_STORAGE_ERROR if the copy cannot be made, or a directory is offline: the partition may have
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
                log.config._replace(flush_messages=FOREVER, flush_ms=FOREVER),  # the move says when
                now_ms=self._now_ms(),
                topic_id=log.topic_id,
                name=name,
            )
        except KafkaError:
            self._discard(target, key, f"{target.path}/{name}", 0)
            raise
        if log.on_loss is not None:
            log.on_loss()  # it is not compacted meanwhile
        self._moves[log] = move = LogMove(log, copy, source, target)
        return move

    def cancel(self, log: Log) -> None:
        """Leave a log where it is: without its copy, or if that has taken over, without its old files."""
        move = self._moves.pop(log, None)
        if move is None:
            return
        if move.taken_over:
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

    def steps(self, move: LogMove) -> Search[None]:
        """Carry out a move; not to be gone on with once it is cancelled. KafkaError if it failed: cancel it then."""
        with move.target.storage_errors():
            text = b"%d\n" % (moves_of(self._disk, move.log.directory) + 1)
            yield partial(self._disk.replace_file, f"{move.copy.directory}/{MOVES_FILE}", text)
        yield from move.copy_all(self._now_ms)
        self._take_over(move)
        with move.target.storage_errors():
            yield partial(self._disk.sync_dir, move.target.path)
        self._retire(move)
        with move.source.storage_errors():
            yield partial(self._disk.sync_dir, move.source.path)
        del self._moves[move.log]

    def close(self) -> None:
        """Complete the moves whose copies have taken over; the others begin anew after the next start."""
        for move in self:
            if move.taken_over:
                self.cancel(move.log)
        self._moves.clear()

    def _take_over(self, move: LogMove) -> None:
        log, copy, target = move.log, move.copy, move.target
        with target.storage_errors():
            LogFiles(self._disk, copy.directory).save_epochs(log.leader_epochs)
        self._logs.checkpoint_one(log, target, copy)
        with target.storage_errors():
            self._disk.rename(copy.directory, f"{target.path}/{log}")
        log.take_over(copy, target)
        self._logs.rehome(log, target)
        move.taken_over = True

    def _retire(self, move: LogMove) -> None:
        log = move.log
        self._discard(
            move.source, (log.topic, log.partition), f"{move.source.path}/{log}", log.config.file_delete_delay_ms
        )

    def _discard(self, directory: LogDirectory, key: TopicPartition, path: str, delay_ms: int) -> None:
        """Let files be deleted; where that fails, the next start does it."""
        try:
            if directory.failure is None and self._disk.exists(path):
                self._logs.trash.discard(directory, key, path, delay_ms)
        except KafkaError as error:
            self._logs.problems.append(str(error))
