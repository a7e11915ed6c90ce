"""Every log of the broker's data directories: opened, created, deleted, kept in order and closed.

    open    lock the directories, read whose they are      then `format` those that are new
    load    open every log, recovering those of a directory whose last stop was unclean
    ...     create, delete, due_flushes, housekeeping, checkpoint
    close   flush and close every log, leave the mark of a clean stop

Work that grows with the number of logs comes as iterators that do one log a step, so that the event loop serves
clients in between. A directory that fails is left out of all this; the others go on. A deleted log's directory is
renamed at once and its files go after `file.delete.delay.ms`, or without delay after a start and while the directory
is full. The metadata log in `__cluster_metadata-0` is its raft driver's, not kept here.
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
from storage.deletion_queue import Trash
from storage.disk import Disk, reason
from storage.former_replicas import superseded
from storage.future_replicas import LogMoves
from storage.log.config import LogConfig
from storage.log.corruption_checks import refuse_file
from storage.log.flush import Flush
from storage.log.loader import open_log
from storage.log.log import Log
from storage.log.names import DELETE_SUFFIX, METADATA_TOPIC, STRAY_SUFFIX, parse_future_name, parse_log_name
from storage.log.retention import told
from storage.log_directory import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, LogDirectory, new_directory_id

if TYPE_CHECKING:
    from random import Random

_END_OF_TIME_MS = 1 << 63
_MAX_OFFSET = (1 << 63) - 1
_LOGS_A_STEP = 256  # far less than a millisecond's work, where nothing has to be done to them


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
        self._homes: dict[TopicPartition, LogDirectory] = {}
        self._count: Counter[LogDirectory] = Counter()
        self.directories = [LogDirectory(disk, path.rstrip("/")) for path in directories]
        # For the caller to log: what was found wrong and put up with, and what retention has deleted.
        self.problems: list[str] = []
        self.deletions: list[str] = []
        self._checkpoints = CheckpointFiles(self._logs_in, self.problems)
        self.trash = Trash(disk, now_ms=now_ms, random=random)
        self.moves = LogMoves(self, disk, now_ms=now_ms, random=random)

    @property
    def online(self) -> list[LogDirectory]:
        """The directories that work."""
        return [directory for directory in self.directories if directory.failure is None]

    @property
    def clean(self) -> bool:
        """Whether the last stop closed every log in order."""
        return all(directory.clean for directory in self.directories)

    # Life

    def open(self) -> None:
        """Lock every directory and read whose it is; `AlreadyLocked` if another process has one.

        OSError if none can be used; one of several that cannot is left offline.
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
        """Mark the directories that are new as this node's, with an id of their own each."""
        for directory in self.online:
            if directory.meta is None or directory.meta.directory_id is None:
                directory.format(MetaProperties(cluster_id, node_id, new_directory_id(self._random)))

    def load(self) -> Iterator[Log]:
        """Open the logs of every directory, one a step; `Log.recovery` says what was done to each."""
        found = {directory: self._names_for_good(directory) for directory in self.online}
        older = superseded(self._disk, found)
        outdated: list[tuple[LogDirectory, TopicPartition, str]] = []
        for directory, names in found.items():
            checkpointed = self._checkpoints.read(directory)
            contiguous = self._contiguous_from(directory)
            # What this process makes in a directory that another program may have written lies behind these.
            found_to: dict[TopicPartition, int] = {}
            for name in names:
                path = f"{directory.path}/{name}"
                if not self._disk.is_dir(path):
                    refuse_file(path, self._checkpoints.stale)
                    continue
                if name.endswith(DELETE_SUFFIX):
                    self.trash.found(directory, path)
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
                compacted = checkpointed.may_be_compacted(key)
                log = self._open(
                    directory,
                    key,
                    self._default_config,
                    clean=directory.clean,
                    recovery_point=checkpointed.offset(RECOVERY_POINTS, key),
                    log_start_offset=checkpointed.offset(LOG_STARTS, key),
                    high_watermark=checkpointed.offset(HIGH_WATERMARKS, key),
                    compacted=compacted,
                    contiguous_from=None if contiguous is None else contiguous.get(key, 0),
                )
                if log is None:
                    found_to[key] = _MAX_OFFSET
                    self._checkpoints.could_not_open(directory, key, checkpointed)
                else:
                    if begins := log.segments[-1].base_offset:
                        found_to[key] = begins
                    self._checkpoints.stale.discard(key)
                    if compacted:
                        log.cleaned_to = checkpointed.cleaned_to(key, log.log_start_offset)
                    yield log
            if contiguous is None:
                self._save_contiguous_from(directory, found_to)
        for directory, key, path in outdated:
            if key in self._logs:
                self.problems.append(f"{path} is deleted: {self._logs[key].directory} is what it was moved to")
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
            self.trash.discard(directory, key, path)
        except KafkaError as error:
            self.problems.append(str(error))

    def begin_close(self) -> Iterator[Flush]:
        """Yield what `close` would sync one by one, for several threads to do at once; then call each `finish`."""
        for log in self._online_logs():
            try:
                flush = log.begin_close(self._now_ms())
            except KafkaError as error:
                self.problems.append(str(error))
            else:
                if flush is not None:
                    yield flush

    def close(self, *, clean: bool = True, broker_epoch: int = -1, broken: Iterable[LogDirectory] = ()) -> bool:
        """Unlock the directories; with `clean`, flush and close every log first and say so on disk.

        A directory that is `broken`, or whose logs cannot all be closed or could not all be recovered, is left as
        after a crash. Returns whether there is none.
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
                    unclean.append(self._homes[key])
            self._checkpoints.write(self.online, sync=True)
        for directory in self.directories:
            try:
                directory.close(clean=directory not in unclean, broker_epoch=broker_epoch)
            except OSError as error:
                self.problems.append(str(directory.fail(error)))
                unclean.append(directory)
                directory.close(clean=False)
        self._logs.clear()
        self._homes.clear()
        self._count.clear()
        return not unclean and len(self.online) == len(self.directories)

    # Logs

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, topic: str, partition: int) -> Log | None:
        """Return a partition's log, if it is here."""
        return self._logs.get((topic, partition))

    def directory_of(self, log: Log) -> LogDirectory:
        """Return the directory that a log of this manager is in."""
        return self._homes[log.topic, log.partition]

    def create(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        config: LogConfig,
        directory_id: bytes = ZERO_UUID,
    ) -> Log:
        """Return a partition's log, made if it is not there: in the directory asked for, else where the fewest are.

        KafkaError KAFKA_STORAGE_ERROR if that directory is offline, or the log cannot be made or could not be opened.
        """
        key = (topic, partition)
        return self._logs.get(key) or self._make(key, topic_id, config, directory_id)

    def _make(self, key: TopicPartition, topic_id: bytes, config: LogConfig, directory_id: bytes) -> Log:
        topic, partition = key
        if self._checkpoints.is_unopened(key):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic}-{partition} could not be opened")
        directory = self._directory_for(directory_id)
        if key in self._checkpoints.stale:
            # Durably, and with it that the former log has another name now: neither may be back beside this one.
            self._checkpoints.write(self.online, sync=True)
            if key in self._checkpoints.stale:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"checkpoint files still list a deleted log of {topic}-{partition}, and cannot be written",
                )
        self.trash.make_way(directory, key)
        log = self._open(directory, key, config, topic_id=topic_id)
        if log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic}-{partition} cannot be made")
        return log

    def delete(self, topic: str, partition: int) -> None:
        """Take a partition's log away; `delete_files` deletes its files after `file.delete.delay.ms`."""
        self._take_away((topic, partition), DELETE_SUFFIX)

    def set_aside(self, topic: str, partition: int) -> str:
        """Take away a log that no topic claims; return where its files stay, for somebody to look at."""
        return self._take_away((topic, partition), STRAY_SUFFIX)

    def _take_away(self, key: TopicPartition, suffix: str) -> str:
        self.moves.cancel(self._logs[key])
        log = self._logs.pop(key)
        log.disown()
        self._checkpoints.stale.add(key)
        home = self._homes.pop(key)
        self._count[home] -= 1
        self._checkpoints.left(key, home)
        return self.trash.take_away(home, key, log.directory, suffix, log.config.file_delete_delay_ms)

    def rehome(self, log: Log, directory: LogDirectory) -> None:
        """Take note that a log is in `directory` now, as `checkpoint_one` has said already."""
        key = (log.topic, log.partition)
        before, self._homes[key] = self._homes[key], directory
        self._count[before] -= 1
        self._count[directory] += 1
        self._checkpoints.left(key, before)

    def checkpoint_one(self, log: Log, directory: LogDirectory, copy: Log) -> None:
        """Let the checkpoint files of `directory` tell of a log that is about to be in it, as `copy` is."""
        self._checkpoints.write_one(log, directory, copy)

    def truncate_to(self, log: Log, offset: int) -> bool:
        """Drop everything from `offset` on, as `Log.truncate_to`, and from the checkpoint files too."""
        # Before too: it begins with indexes, which are trusted below the recovery point.
        self._checkpoints.cut(log, self.directory_of(log), offset)
        if offset >= log.log_start_offset:
            # Deleted records alone may be left, and go too: a power cut amid that must leave no end below the start.
            self._checkpoints.sync_log_start(log, self.directory_of(log))
        cut = log.truncate_to(offset)
        self._checkpoints.cut(log, self.directory_of(log), offset)
        return cut

    def truncate_fully_and_start_at(self, log: Log, offset: int) -> None:
        """Drop everything, as `Log.truncate_fully_and_start_at`, and from the checkpoint files too."""
        self._checkpoints.cut(log, self.directory_of(log), 0)
        log.truncate_fully_and_start_at(offset)
        self._checkpoints.cut(log, self.directory_of(log), offset)

    def delete_records(self, log: Log, offset: int) -> None:
        """Let `log` begin at `offset`, through a crash only from `save_log_starts` on; as `Log.advance_log_start`."""
        if log.advance_log_start(offset):
            self._checkpoints.log_start_moved(log, self.directory_of(log))

    def save_log_starts(self) -> None:
        """Make what `delete_records` did last; once for many logs, since a file tells of all. KafkaError if not.

        Where a directory is full, delete the segments of the records first: their space is what the file needs.
        """
        try:
            self._checkpoints.save_log_starts(self.online)
        except KafkaError:
            if not self._delete_trimmed():
                raise
            self._checkpoints.save_log_starts(self.online)

    def _delete_trimmed(self) -> bool:
        """Delete at once what lies below log starts that a full disk kept from being saved; return if there was any."""
        freed = False
        for directory in self.online:
            for log in self._checkpoints.unsaved_in(directory) if directory.full else ():
                with suppress(KafkaError):  # the caller saves the starts again, and raises if that fails
                    if gone := log.delete_old_segments(self._now_ms(), full=True):
                        self.deletions.append(f"{log}: {told(gone)}")
                    freed = freed or bool(log.pending_deletes)
                    log.delete_files(_END_OF_TIME_MS)
        return freed

    def log_start_is_saved(self, log: Log) -> bool:
        """Tell whether nothing that `delete_records` did to `log` waits for `save_log_starts`."""
        return self._checkpoints.log_starts_are_saved(self.directory_of(log))

    # Upkeep

    def due_flushes(self, now_ms: int) -> Iterator[Flush | None]:
        """Yield what is to be synced by now, for `sync`, best in a thread, and `finish`; at times None."""
        for number, log in enumerate(self._online_logs(), 1):
            flush = log.due_flush(now_ms)
            if flush is not None or number % _LOGS_A_STEP == 0:
                yield flush

    def housekeeping(self, now_ms: int, *, only_full: bool = False) -> Iterator[KafkaError | None]:
        """Apply retention, release idle files: one log a step; yield what failed. `only_full`: in full directories."""
        for log in self._online_logs():
            full, failed = self.directory_of(log).full, None
            if only_full and not full:
                continue
            try:
                if gone := log.delete_old_segments(now_ms, full=full):
                    self.deletions.append(f"{log}: {told(gone)}")
                if not only_full:
                    log.release()
            except KafkaError as error:
                if not only_full or log.offline:  # that the directory is full is known
                    failed = error
            yield failed

    def expire_producers(self, now_ms: int, expiration_ms: int) -> Iterator[None]:
        """Forget the producers that have written nothing for `expiration_ms`, one log a step."""
        for log in self._online_logs():
            log.producers.expire(now_ms, expiration_ms)
            yield

    def delete_files(self, now_ms: int) -> Iterator[KafkaError | None]:
        """Delete the files of deleted logs and segments whose time has come, or whose space is needed now.

        One log a step; yields what failed.
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
        yield from self.trash.empty(now_ms)

    def make_room(self) -> None:
        """Where a directory is full, delete at once what was deleted before the last stop; before anything is written.

        That makes deleting a topic, and starting again, a way out of a full disk.
        """
        for directory in [directory for directory in self.online if not directory.has_room()]:
            for name in self._names(directory):
                path = f"{directory.path}/{name}"
                if name.endswith(DELETE_SUFFIX) and (failed := self.trash.remove(directory, path)):
                    self.problems.append(str(failed))
            directory.full = not directory.has_room()

    def check_room(self) -> None:
        """Raise KAFKA_STORAGE_ERROR if no directory has space for a log more."""
        full = [directory for directory in self.online if not directory.has_room()]
        if full and len(full) == len(self.online):
            paths = ", ".join(directory.path for directory in full)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"No space left in {paths}: free some there, or delete topics."
            )

    def checkpoint(self, *names: str) -> None:
        """Write some of the checkpoint files, or all of them, of every directory that works."""
        self._checkpoints.write(self.online, names)

    # Parts

    def _open(
        self,
        directory: LogDirectory,
        key: TopicPartition,
        config: LogConfig,
        *,
        topic_id: bytes = ZERO_UUID,
        clean: bool = True,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        compacted: bool | None = None,
        contiguous_from: int | None = None,
    ) -> Log | None:
        try:
            log = open_log(
                self._disk,
                directory,
                *key,
                config,
                now_ms=self._now_ms(),
                topic_id=topic_id,
                clean=clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                high_watermark=high_watermark,
                compacted=compacted,
                contiguous_from=contiguous_from,
            )
        except KafkaError as error:
            self.problems.append(str(error))
            return None
        self._logs[key] = log
        self._homes[key] = directory
        self._count[directory] += 1
        return log

    def _directory_for(self, directory_id: bytes) -> LogDirectory:
        online = self.online
        wanted = [directory for directory in online if directory.directory_id == directory_id]
        if wanted:
            return wanted[0]
        offline = [directory for directory in self.directories if directory.failure is not None]
        if not online or (offline and directory_id != ZERO_UUID):
            # The replica may have records there: an empty log elsewhere would pass for all of it.
            raise offline[0].offline()
        return min(online, key=lambda directory: (directory.full, self._count[directory]))

    def _logs_in(self, directory: LogDirectory) -> dict[TopicPartition, Log]:
        return {key: log for key, log in self._logs.items() if self._homes[key] is directory}

    def _online_logs(self) -> Iterator[Log]:
        """Yield the logs in directories that work, but for those deleted between the steps."""
        for key, log in list(self._logs.items()):
            if self._logs.get(key) is log and self._homes[key].failure is None:
                yield log

    def _names_for_good(self, directory: LogDirectory) -> list[str]:
        """Return the names in a directory: a power cut after this start brings back none that a former run removed."""
        if not directory.clean:
            try:
                self._disk.sync_dir(directory.path)
            except OSError as error:
                self.problems.append(str(directory.give_up(error)))
                return []
        return self._names(directory)

    def _names(self, directory: LogDirectory) -> list[str]:
        try:
            return self._disk.list_dir(directory.path)
        except OSError as error:
            self.problems.append(str(directory.give_up(error)))
            return []
