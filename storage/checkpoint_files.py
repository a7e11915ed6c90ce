"""The checkpoint files of the data directories: read at a start, written as the logs change.

    recovery points    all below is durable: recovery scans from there
    log starts         only where a log does not start with its first segment
    high watermarks    all below is on all in-sync replicas
    cleaned to         the compacted logs and their first dirty offsets; they may have gaps

A file has the entries of all logs of its directory. A log that could not be opened keeps its entries unchanged, since
only the next start opens it again, with recovery. A partition that a file lists although its log is gone is `stale`:
the entry must not be applied to a new log of the same name. `checkpoint.py` has the formats, `log_directory.py` the
files (Kafka: `OffsetCheckpointFile`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import KafkaError
from storage.checkpoint import CheckpointError, TopicPartition
from storage.log.log_checkpoint import LogCheckpoint
from storage.log_directory import CLEANED_TO, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, LogDirectory

if TYPE_CHECKING:
    from storage.log.log import Log

CHECKPOINTS = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANED_TO)


class Checkpointed(NamedTuple):
    """The checkpoint entries of one directory at the start, by file name; None for a file that is unusable."""

    files: dict[str, dict[TopicPartition, int] | None]

    def of_log(self, key: TopicPartition, *, clean: bool, contiguous_from: int | None) -> LogCheckpoint:
        """Return the entries of one log. Without the cleaner checkpoint, any log may be compacted."""
        recovery_point, log_start, high_watermark, cleaned = (self.files[name] for name in CHECKPOINTS)
        compacted = cleaned is None or key in cleaned
        offsets = [(found or {}).get(key, 0) for found in (recovery_point, log_start, high_watermark)]
        return LogCheckpoint(clean, offsets[0], offsets[1], offsets[2], compacted, contiguous_from)

    def cleaned_to(self, key: TopicPartition, log_start_offset: int) -> int:
        """Return the offset below which a log is compacted; the log start if the file is unusable.

        In the latter case every log is listed from now on, so that none is refused for its gaps later.
        """
        return (self.files[CLEANED_TO] or {}).get(key, log_start_offset)


class _Unopened(NamedTuple):
    """A log that could not be opened: its directory, and its offset in each file that lists it."""

    log_dir: LogDirectory
    offsets: dict[str, int]


class CheckpointFiles:
    """The checkpoint files of all directories; errors of reading and writing are added to `problems`."""

    def __init__(self, logs_in: Callable[[LogDirectory], Mapping[TopicPartition, Log]], problems: list[str]) -> None:
        """Write the entries of the logs that `logs_in` returns for a directory."""
        self._logs_in = logs_in
        self._problems = problems
        self._unopened: dict[TopicPartition, _Unopened] = {}
        # Directory -> its logs whose starts have moved since the file of log starts was written.
        self._unsaved: dict[LogDirectory, dict[TopicPartition, Log]] = {}
        self.stale: set[TopicPartition] = set()

    # Reading

    def read(self, directory: LogDirectory) -> Checkpointed:
        """Return the entries of a directory's files; every partition in them is stale until its log is opened."""
        found = Checkpointed({name: self._read(directory, name) for name in CHECKPOINTS})
        self.stale.update(*filter(None, found.files.values()))
        return found

    def _read(self, directory: LogDirectory, name: str) -> dict[TopicPartition, int] | None:
        try:
            return directory.read_offsets(name)
        except CheckpointError as error:
            self._problems.append(f"{error}; treated as empty")
            return None

    def could_not_open(self, directory: LogDirectory, key: TopicPartition, found: Checkpointed) -> None:
        """Keep the entries `found` of a log that is on disk."""
        offsets = {name: offsets[key] for name, offsets in found.files.items() if offsets and key in offsets}
        self._unopened[key] = _Unopened(directory, offsets)

    def is_unopened(self, key: TopicPartition) -> bool:
        """Return whether a partition's log is on disk but could not be opened."""
        return key in self._unopened

    @property
    def unopened_in(self) -> list[LogDirectory]:
        """The directories of the logs that could not be opened."""
        return [unopened.log_dir for unopened in self._unopened.values()]

    # Writing

    def write(self, directories: Iterable[LogDirectory], names: Iterable[str] = (), *, sync: bool = False) -> None:
        """Write the named files, or all of them; with `sync`, durably."""
        names = tuple(names) or CHECKPOINTS
        still_stale: set[TopicPartition] = set()
        for directory in directories:
            if not self._write_all(directory, names, sync=sync):
                still_stale.update(
                    key for key in self.stale if any(directory.may_exceed(name, key, None) for name in CHECKPOINTS)
                )
        if set(names) >= set(CHECKPOINTS):
            self.stale &= still_stale

    def _write_all(self, directory: LogDirectory, names: Iterable[str], *, sync: bool) -> bool:
        """Write these files of a directory; return whether all could be written."""
        written = True
        for name in names:
            try:
                self._write(directory, name, self._offsets(directory, name), sync=sync)
            except KafkaError as error:
                written = False
                if not directory.full:  # `DiskSpaceMonitor` logs that, once
                    self._problems.append(str(error))
                if directory.failure is not None:
                    break
        return written

    def write_one(self, log: Log, directory: LogDirectory, copy: Log) -> None:
        """Write the entries of a log that is about to be replaced by `copy` in `directory`; raise KafkaError."""
        key = (log.topic, log.partition)
        offsets = {RECOVERY_POINTS: _recovery_point(copy), LOG_STARTS: log.log_start_offset, CLEANED_TO: log.cleaned_to}
        for name, offset in offsets.items():
            if offset is not None:
                self._write(directory, name, {**self._offsets(directory, name), key: offset})

    def truncate(self, log: Log, directory: LogDirectory, offset: int) -> None:
        """Durably lower the entries of a log that is truncated to `offset`; raise KafkaError if they cannot be written.

        Usually nothing is written: no entry is above the base offset of the last segment.
        """
        log.recovery_point = min(log.recovery_point, offset)
        key = (log.topic, log.partition)
        for name in (RECOVERY_POINTS, LOG_STARTS, CLEANED_TO):
            if directory.may_exceed(name, key, _offset(name, log)):
                self._write(directory, name, self._offsets(directory, name), sync=True)

    def log_start_moved(self, log: Log, directory: LogDirectory) -> None:
        """Record that the start of `log` has moved, for `save_log_starts` to write."""
        self._unsaved.setdefault(directory, {})[log.topic, log.partition] = log

    def sync_log_start(self, log: Log, directory: LogDirectory) -> None:
        """Make a log start within the log's first segment durable; raise KafkaError if that fails."""
        start = log.log_start_offset
        if start <= log.segments[0].base_offset:
            return
        if not directory.is_durable(LOG_STARTS, (log.topic, log.partition), start):
            self._write(directory, LOG_STARTS, self._offsets(directory, LOG_STARTS), sync=True)

    def save_log_starts(self, directories: Iterable[LogDirectory]) -> None:
        """Write the log starts that have moved, each file once; raise KafkaError if one cannot be written."""
        failed: KafkaError | None = None
        for directory in directories:
            if directory in self._unsaved:
                try:
                    self._write(directory, LOG_STARTS, self._log_starts(directory))
                except KafkaError as error:
                    failed = error
                else:
                    del self._unsaved[directory]
        for directory in [directory for directory in self._unsaved if directory.failure is not None]:
            del self._unsaved[directory]  # nothing is written there before the next start
        if failed is not None:
            raise failed

    def forget_unsaved(self, key: TopicPartition, directory: LogDirectory) -> None:
        """Forget the unsaved start of a log that has left `directory`; its lines stay until the next `write`."""
        unsaved = self._unsaved.get(directory)
        if unsaved is not None:
            unsaved.pop(key, None)
            if not unsaved:
                del self._unsaved[directory]

    def _log_starts(self, directory: LogDirectory) -> Mapping[TopicPartition, int]:
        """Return the entries of the file of log starts, updated for the logs whose starts have moved.

        A line that is no longer needed, such as that of a deleted log, stays until `write`.
        """
        written = directory.written(LOG_STARTS)
        if written is None:
            return self._offsets(directory, LOG_STARTS)
        offsets = dict(written)
        for key, log in self._unsaved[directory].items():
            offset = _offset(LOG_STARTS, log)
            if offset is None:
                offsets.pop(key, None)
            else:
                offsets[key] = offset
        return offsets

    def unsaved_in(self, directory: LogDirectory) -> list[Log]:
        """Return the logs of a directory whose starts wait for `save_log_starts`."""
        return list(self._unsaved.get(directory, {}).values())

    def log_starts_are_saved(self, directory: LogDirectory) -> bool:
        """Return whether `save_log_starts` has written every log start of a directory, which has not failed."""
        return directory not in self._unsaved and directory.failure is None

    def _offsets(self, directory: LogDirectory, name: str) -> dict[TopicPartition, int]:
        """Return the entries for the file `name` of a directory."""
        logs = self._logs_in(directory).items()
        return {key: offset for key, log in logs if (offset := _offset(name, log)) is not None}

    def _write(
        self, directory: LogDirectory, name: str, offsets: Mapping[TopicPartition, int], *, sync: bool = False
    ) -> None:
        kept = {
            key: unopened.offsets[name]
            for key, unopened in self._unopened.items()
            if unopened.log_dir is directory and name in unopened.offsets
        }
        directory.write_offsets(name, {**kept, **offsets}, sync)


def _offset(name: str, log: Log) -> int | None:
    """Return the entry of a log for the file `name`; None if it needs none."""
    if name == RECOVERY_POINTS:
        return _recovery_point(log)
    if name == LOG_STARTS:
        return log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else None
    return log.cleaned_to if name == CLEANED_TO else log.high_watermark


def _recovery_point(log: Log) -> int:
    """Return the base offset of the segment that holds the recovery point, 0 if there is none.

    Everything below is durable, indexes too, also after a truncation inside that segment.
    """
    return next((one.base_offset for one in reversed(log.segments) if one.base_offset <= log.recovery_point), 0)
