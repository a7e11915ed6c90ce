"""All logs of the broker's data directories: load, create, delete, retain, checkpoint, close (Kafka: `LogManager`).

    open    lock the directories, read their `meta.properties`      then `format` those that are new
    load    open every log; recover those of a directory whose last shutdown was unclean
    ...     create, delete, due_flushes, apply_retention, checkpoint
    close   flush and close every log, write the clean shutdown file

Work that grows with the number of logs is an iterator with one log per step: the event loop serves clients between the
steps. A failed directory is skipped; the others continue. A deleted log's directory is renamed at once and its
files are deleted after `file.delete.delay.ms`, or without delay after a start and while the directory is full. The
metadata log in `__cluster_metadata-0` belongs to its raft driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError
from protocol.primitives import ZERO_UUID
from storage.checkpoint import MetaProperties, TopicPartition
from storage.checkpoint_files import CheckpointFiles
from storage.deletion_queue import DeletionQueue
from storage.disk import Disk, reason
from storage.former_replicas import superseded
from storage.future_replicas import FutureReplicas
from storage.log.config import LogConfig
from storage.log.corruption_checks import refuse_file
from storage.log.flush import Flush
from storage.log.loader import open_log
from storage.log.log import Log
from storage.log.log_checkpoint import NEW_LOG, LogCheckpoint
from storage.log.names import DELETE_SUFFIX, METADATA_TOPIC, STRAY_SUFFIX, parse_future_name, parse_log_name
from storage.log.retention import describe_deleted
from storage.log_directory import LogDirectory, new_directory_id

if TYPE_CHECKING:
    from random import Random

_END_OF_TIME_MS = 1 << 63
_MAX_OFFSET = (1 << 63) - 1
_LOGS_A_STEP = 256  # far less than 1 ms of work, where a log has nothing to do


class LogManager:
    """The logs in `directories`, by topic and partition."""

    def __init__(
        self,
        disk: Disk,
        directories: Iterable[str],
        default_config: LogConfig,
        *,
        now_ms: Callable[[], int],
        random: Random,
    ) -> None:
        self._disk = disk
        self._default_config = default_config
        self._now_ms = now_ms
        self._random = random
        self._logs: dict[TopicPartition, Log] = {}
        self._log_dirs: dict[TopicPartition, LogDirectory] = {}
        self._count: Counter[LogDirectory] = Counter()
        self.directories = [LogDirectory(disk, path.rstrip("/")) for path in directories]
        # Lines for the caller to log: tolerated problems, and what retention has deleted.
        self.problems: list[str] = []
        self.deletions: list[str] = []
        self._checkpoints = CheckpointFiles(self._logs_in, self.problems)
        self.deletion_queue = DeletionQueue(
            disk, now_ms=now_ms, random=random, has_one_directory=len(self.directories) == 1
        )
        self.moves = FutureReplicas(self, disk, now_ms=now_ms, random=random)

    @property
    def online(self) -> list[LogDirectory]:
        """The directories that have not failed."""
        return [directory for directory in self.directories if directory.failure is None]

    @property
    def clean(self) -> bool:
        """Whether the last shutdown closed every log cleanly."""
        return all(directory.clean for directory in self.directories)

    # Start and shutdown

    def open(self) -> None:
        """Lock every directory and read its `meta.properties`; raise `AlreadyLocked` if another process holds one.

        Raise OSError if no directory can be used; one of several that cannot be used is left offline.
        """
        for directory in self.directories:
            try:
                directory.open()
            except OSError as error:
                directory.give_up(error)
                self.problems.append(f"log directory {directory.path} cannot be opened: {reason(error)}")
        if not self.online and self.directories[0].failure is not None:
            raise self.directories[0].failure

    def format(self, cluster_id: str, node_id: int) -> None:
        """Write `meta.properties` of the new directories, each with a directory id of its own."""
        for directory in self.online:
            if directory.meta is None or directory.meta.directory_id is None:
                directory.format(MetaProperties(cluster_id, node_id, new_directory_id(self._random)))

    def load(self) -> Iterator[Log]:
        """Open the logs of every directory, one per step; `Log.recovery` has what recovery changed."""
        found = {directory: self._names(directory) for directory in self.online}
        older = superseded(self._disk, found)
        outdated: list[tuple[LogDirectory, TopicPartition, str]] = []
        for directory, names in found.items():
            checkpointed = self._checkpoints.read(directory)
            contiguous = self._contiguous_from(directory)
            # Base offsets of the last segments of a directory that another program may have written; later ones are
            # ours.
            found_to: dict[TopicPartition, int] = {}
            for name in names:
                path = f"{directory.path}/{name}"
                if not self._disk.is_dir(path):
                    refuse_file(path, self._checkpoints.stale)
                    continue
                if name.endswith(DELETE_SUFFIX):
                    self.deletion_queue.enqueue(directory, path)
                    continue
                future = parse_future_name(name)
                if future is not None:
                    self.moves.interrupted[future] = directory
                    self._discard(directory, future, path)
                    continue
                key = parse_log_name(name)
                if key is None or key[0] == METADATA_TOPIC:
                    continue
                if path in older:
                    outdated.append((directory, key, path))
                    continue
                contiguous_from = None if contiguous is None else contiguous.get(key, 0)
                checkpoint = checkpointed.of_log(key, clean=directory.clean, contiguous_from=contiguous_from)
                log = self._open(directory, key, self._default_config, checkpoint=checkpoint)
                if log is None:
                    found_to[key] = _MAX_OFFSET
                    self._checkpoints.could_not_open(directory, key, checkpointed)
                else:
                    if begins := log.segments[-1].base_offset:
                        found_to[key] = begins
                    self._checkpoints.stale.discard(key)
                    if checkpoint.compacted:
                        log.cleaned_to = checkpointed.cleaned_to(key, log.log_start_offset)
                    yield log
            if contiguous is None:
                self._save_contiguous_from(directory, found_to)
        for directory, key, path in outdated:
            if key in self._logs:
                self.problems.append(f"{path} is deleted: {self._logs[key].directory} has replaced it")
                self._discard(directory, key, path)

    def _contiguous_from(self, directory: LogDirectory) -> Mapping[TopicPartition, int] | None:
        try:
            return directory.contiguous_from()
        except OSError as error:
            self.problems.append(str(directory.give_up(error)))
            return None

    def _save_contiguous_from(self, directory: LogDirectory, offsets: Mapping[TopicPartition, int]) -> None:
        if directory.failure is None:
            try:
                directory.save_contiguous_from(offsets)
            except KafkaError as error:
                self.problems.append(str(error))

    def _discard(self, directory: LogDirectory, key: TopicPartition, path: str) -> None:
        try:
            self.deletion_queue.rename_away(directory, key, path)
        except KafkaError as error:
            self.problems.append(str(error))

    def begin_close(self) -> Iterator[Flush]:
        """Yield the flushes that `close` would run, to be synced in several threads and finished by the caller."""
        for log in self._online_logs():
            try:
                flush = log.begin_close(self._now_ms())
            except KafkaError as error:
                self.problems.append(str(error))
            else:
                if flush is not None:
                    yield flush

    def close(self, *, clean: bool = True, broker_epoch: int = -1, broken: Iterable[LogDirectory] = ()) -> bool:
        """Unlock the directories; with `clean`, first flush and close every log and write the clean shutdown files.

        A directory that is `broken`, or has a log that could not be closed or recovered, is left as after a crash.
        Return whether there is none.
        """
        unclean = list(broken) if clean else list(self.directories)
        unclean += [directory for directory in self._checkpoints.unopened_in if not directory.clean]
        if clean:
            self.moves.close()
            for key, log in self._logs.items():
                try:
                    log.close(self._now_ms())
                except KafkaError as error:
                    self.problems.append(str(error))
                    unclean.append(self._log_dirs[key])
            self._checkpoints.write(self.online, sync=True)
        for directory in self.directories:
            try:
                directory.close(clean=directory not in unclean, broker_epoch=broker_epoch)
            except OSError as error:
                self.problems.append(str(directory.fail(error)))
                unclean.append(directory)
                directory.close(clean=False)
        self._logs.clear()
        self._log_dirs.clear()
        self._count.clear()
        return not unclean and len(self.online) == len(self.directories)

    # Logs

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, topic: str, partition: int) -> Log | None:
        """Return a partition's log; None if it is not here."""
        return self._logs.get((topic, partition))

    def directory_of(self, log: Log) -> LogDirectory:
        """Return the data directory of one of the manager's logs."""
        return self._log_dirs[log.topic, log.partition]

    def create(
        self, topic: str, topic_id: bytes, partition: int, config: LogConfig, directory_id: bytes = ZERO_UUID
    ) -> Log:
        """Return a partition's log; create it if it is missing.

        A new log is created in the requested directory, else in the one with the fewest logs. Raise KAFKA_STORAGE_ERROR
        if that directory is offline, or the log cannot be created or could not be opened.
        """
        key = (topic, partition)
        return self._logs.get(key) or self._make(key, topic_id, config, directory_id)

    def _make(self, key: TopicPartition, topic_id: bytes, config: LogConfig, directory_id: bytes) -> Log:
        topic, partition = key
        if self._checkpoints.is_unopened(key):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic}-{partition} could not be opened")
        directory = self._directory_for(directory_id)
        if key in self._checkpoints.stale:
            # Durably, with the renames of former logs: a power cut must not restore either beside the new log.
            self._checkpoints.write(self.online, sync=True)
            if key in self._checkpoints.stale:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"checkpoint files still list a deleted log of {topic}-{partition}, and cannot be written",
                )
        self.deletion_queue.make_way(directory, key)
        log = self._open(directory, key, config, topic_id=topic_id)
        if log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic}-{partition} cannot be created")
        return log

    def delete(self, topic: str, partition: int) -> None:
        """Remove a partition's log; `delete_files` deletes its files after `file.delete.delay.ms`."""
        self._remove_log((topic, partition), DELETE_SUFFIX)

    def mark_stray(self, topic: str, partition: int) -> str:
        """Mark a log that belongs to no topic as stray; return the path where its files stay for inspection."""
        return self._remove_log((topic, partition), STRAY_SUFFIX)

    def _remove_log(self, key: TopicPartition, suffix: str) -> str:
        self.moves.cancel(self._logs[key])
        log = self._logs.pop(key)
        log.mark_deleted()
        self._checkpoints.stale.add(key)
        log_dir = self._log_dirs.pop(key)
        self._count[log_dir] -= 1
        self._checkpoints.forget_unsaved(key, log_dir)
        return self.deletion_queue.retire(log_dir, key, log.directory, suffix, log.config.file_delete_delay_ms)

    def set_log_dir(self, log: Log, directory: LogDirectory) -> None:
        """Record that a log is in `directory` now; `checkpoint_one` has written its checkpoint entries there."""
        key = (log.topic, log.partition)
        before, self._log_dirs[key] = self._log_dirs[key], directory
        self._count[before] -= 1
        self._count[directory] += 1
        self._checkpoints.forget_unsaved(key, before)

    def checkpoint_one(self, log: Log, directory: LogDirectory, copy: Log) -> None:
        """Write the checkpoint entries of a log that is about to move to `directory`, where it is as `copy` is."""
        self._checkpoints.write_one(log, directory, copy)

    def truncate_to(self, log: Log, offset: int) -> bool:
        """Truncate `log` as `Log.truncate_to`, and its checkpoint entries."""
        # Lower them before too: a truncation changes indexes first, which are trusted below the recovery point.
        self._checkpoints.truncate(log, self.directory_of(log), offset)
        if offset >= log.log_start_offset:
            # If only records below the log start are left, they are dropped too. Until then a power cut must not leave
            # a log end below the log start.
            self._checkpoints.sync_log_start(log, self.directory_of(log))
        truncated = log.truncate_to(offset)
        self._checkpoints.truncate(log, self.directory_of(log), offset)
        return truncated

    def truncate_fully_and_start_at(self, log: Log, offset: int) -> None:
        """Drop all records as `Log.truncate_fully_and_start_at`, and the log's checkpoint entries."""
        self._checkpoints.truncate(log, self.directory_of(log), 0)
        log.truncate_fully_and_start_at(offset)
        self._checkpoints.truncate(log, self.directory_of(log), offset)

    def delete_records(self, log: Log, offset: int) -> None:
        """Set the log start offset as `Log.advance_log_start`; it survives a crash once `save_log_starts` returns."""
        if log.advance_log_start(offset):
            self._checkpoints.log_start_moved(log, self.directory_of(log))

    def save_log_starts(self) -> None:
        """Write the log starts that `delete_records` has moved, one file for many logs; raise KafkaError if that fails.

        In a full directory, delete the segments of the deleted records and retry.
        """
        try:
            self._checkpoints.save_log_starts(self.online)
        except KafkaError:
            if not self._delete_trimmed():
                raise
            self._checkpoints.save_log_starts(self.online)

    def _delete_trimmed(self) -> bool:
        """Delete at once what is below unsaved log starts in full directories; return whether there was any."""
        freed = False
        for directory in self.online:
            for log in self._checkpoints.unsaved_in(directory) if directory.full else ():
                with suppress(KafkaError):  # the caller retries, and raises if that fails
                    if gone := log.delete_old_segments(self._now_ms(), full=True):
                        self.deletions.append(f"{log}: {describe_deleted(gone)}")
                    freed = freed or bool(log.pending_deletes)
                    log.delete_files(_END_OF_TIME_MS)
        return freed

    def log_start_is_saved(self, log: Log) -> bool:
        """Return whether `save_log_starts` has written everything that `delete_records` changed in `log`."""
        return self._checkpoints.log_starts_are_saved(self.directory_of(log))

    # Background tasks

    def due_flushes(self, now_ms: int) -> Iterator[Flush | None]:
        """Yield the flushes that are due, for the caller to `sync` in a thread and `finish`; None every 256 logs."""
        for number, log in enumerate(self._online_logs(), 1):
            flush = log.due_flush(now_ms)
            if flush is not None or number % _LOGS_A_STEP == 0:
                yield flush

    def apply_retention(self, now_ms: int, *, only_full: bool = False) -> Iterator[KafkaError | None]:
        """Apply retention and release idle files, one log per step; yield each log's error or None.

        `only_full`: only apply retention, in full directories.
        """
        for log in self._online_logs():
            full, failed = self.directory_of(log).full, None
            if only_full and not full:
                continue
            try:
                if gone := log.delete_old_segments(now_ms, full=full):
                    self.deletions.append(f"{log}: {describe_deleted(gone)}")
                if not only_full:
                    log.release()
            except KafkaError as error:
                if not only_full or log.offline:  # that the directory is full is known already
                    failed = error
            yield failed

    def expire_producers(self, now_ms: int, expiration_ms: int) -> Iterator[None]:
        """Remove the producers that have written nothing for `expiration_ms`, one log per step."""
        for log in self._online_logs():
            log.producers.expire(now_ms, expiration_ms)
            yield

    def delete_files(self, now_ms: int) -> Iterator[KafkaError | None]:
        """Delete the files of deleted logs and segments whose delay has passed, or whose directory is full.

        One log per step; yield its error or None.
        """
        for number, log in enumerate(self._online_logs(), 1):
            if log.pending_deletes:
                try:
                    log.delete_files(_END_OF_TIME_MS if self.directory_of(log).full else now_ms)
                except KafkaError as error:
                    yield error
                else:
                    yield None
            elif number % _LOGS_A_STEP == 0:
                yield None
        yield from self.deletion_queue.delete_due(now_ms)

    def make_room(self) -> None:
        """Delete the files of deleted logs in full directories, before the start writes anything.

        So a full disk is freed by deleting a topic and restarting.
        """
        for directory in [directory for directory in self.online if not directory.has_room()]:
            for name in self._names(directory):
                path = f"{directory.path}/{name}"
                if name.endswith(DELETE_SUFFIX) and (failed := self.deletion_queue.remove(directory, path)):
                    self.problems.append(str(failed))
            directory.full = not directory.has_room()

    def check_room(self) -> None:
        """Raise KAFKA_STORAGE_ERROR if no directory has space for another log."""
        full = [directory for directory in self.online if not directory.has_room()]
        if full and len(full) == len(self.online):
            paths = ", ".join(directory.path for directory in full)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"No space left in {paths}: free some there, or delete topics."
            )

    def checkpoint(self, *names: str) -> None:
        """Write the named checkpoint files, or all of them, of every directory that is online."""
        self._checkpoints.write(self.online, names)

    # Helpers

    def _open(
        self,
        directory: LogDirectory,
        key: TopicPartition,
        config: LogConfig,
        *,
        topic_id: bytes = ZERO_UUID,
        checkpoint: LogCheckpoint = NEW_LOG,
    ) -> Log | None:
        now_ms = self._now_ms()
        try:
            log = open_log(self._disk, directory, *key, config, now_ms=now_ms, topic_id=topic_id, checkpoint=checkpoint)
        except KafkaError as error:
            self.problems.append(str(error))
            return None
        self._logs[key] = log
        self._log_dirs[key] = directory
        self._count[directory] += 1
        return log

    def _directory_for(self, directory_id: bytes) -> LogDirectory:
        online = self.online
        wanted = [directory for directory in online if directory.directory_id == directory_id]
        if wanted:
            return wanted[0]
        offline = [directory for directory in self.directories if directory.failure is not None]
        if not online or (offline and directory_id != ZERO_UUID):
            # The replica may have records there: an empty log elsewhere would count as the complete replica.
            raise offline[0].offline()
        return min(online, key=lambda directory: (directory.full, self._count[directory]))

    def _logs_in(self, directory: LogDirectory) -> dict[TopicPartition, Log]:
        return {key: log for key, log in self._logs.items() if self._log_dirs[key] is directory}

    def _online_logs(self) -> Iterator[Log]:
        """Yield the logs in online directories, without those deleted between the steps."""
        for key, log in list(self._logs.items()):
            if self._logs.get(key) is log and self._log_dirs[key].failure is None:
                yield log

    def _names(self, directory: LogDirectory) -> list[str]:
        """Return the names in a directory; none if they cannot be read, which takes the directory offline."""
        try:
            return self._disk.list_dir(directory.path)
        except OSError as error:
            self.problems.append(str(directory.give_up(error)))
            return []
