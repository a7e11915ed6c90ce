"""Selects, among all logs, the next one to clean (Kafka: `LogCleanerManager.grabFilthiestCompactedLog`).

The log with the highest cleanable ratio among those that are due comes first (`cleanable_range.py` computes it). The
first dirty offset of each log is written to `cleaner-offset-checkpoint` of its directory. A log whose pass fails
because of its content (a damaged batch) is uncleanable until the next start, as in Kafka; other logs are still cleaned.
An I/O error takes the directory offline with all its logs.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from protocol.errors import ErrorCode, KafkaError
from storage.cleaner.cleanable_range import LogToClean, cleanable_range
from storage.cleaner.cleaner_pass import CleanerPass
from storage.disk import Disk
from storage.log.log import Log
from storage.log_directory import CLEANED_TO
from storage.log_manager import LogManager

_LOGS_A_STEP = 16


class CleanerConfig(NamedTuple):
    """The settings `log.cleaner.dedupe.buffer.size`, `.io.buffer.load.factor` and `.io.buffer.size`."""

    memory_bytes: int = 128 * 1024 * 1024
    load_factor: float = 0.9
    buffer_bytes: int = 512 * 1024


class CleanerManager:
    """The cleaner of all logs in `logs`; it cleans one log at a time."""

    def __init__(self, disk: Disk, logs: LogManager, *, now_ms: Callable[[], int]) -> None:
        self._disk = disk
        self._logs = logs
        self._now_ms = now_ms
        self.uncleanable: dict[Log, str] = {}
        """Logs that are not cleaned until the next start, with the reason."""
        self.max_dirty_percent = 0

    def next(self, config: CleanerConfig) -> Iterator[CleanerPass | None]:
        """Search for the dirtiest log that is due, 16 logs a step; at the end yield its pass, if there is one."""
        dirtiest: tuple[float, Log, LogToClean] | None = None
        max_ratio = 0.0
        self.uncleanable = {log: why for log, why in self.uncleanable.items() if self._is_online(log)}
        for number, log in enumerate(self._logs, 1):
            if number % _LOGS_A_STEP == 0:
                yield None
            if "compact" not in log.config.cleanup_policy or log in self.uncleanable or not self._is_cleanable(log):
                continue
            try:
                with self._logs.directory_of(log).storage_errors():
                    to_clean = cleanable_range(log, self._now_ms())
            except KafkaError as error:
                self.failed(log, error)
                continue
            max_ratio = max(max_ratio, to_clean.cleanable_ratio)
            if to_clean.is_due(log.config.min_cleanable_dirty_ratio) and (
                dirtiest is None or to_clean.cleanable_ratio > dirtiest[0]
            ):
                dirtiest = (to_clean.cleanable_ratio, log, to_clean)
        self.max_dirty_percent = int(100 * max_ratio)
        if dirtiest is not None and self._is_cleanable(dirtiest[1]):
            _, log, to_clean = dirtiest
            yield CleanerPass(
                self._disk,
                self._logs.directory_of(log),
                log,
                to_clean,
                now_ms=self._now_ms,
                memory_bytes=config.memory_bytes,
                load_factor=config.load_factor,
                chunk_bytes=config.buffer_bytes // 2,
            )

    def finished(self, compaction: CleanerPass) -> None:
        """Write the cleaner checkpoints after a pass that completed."""
        if compaction.cleaned_to is not None:
            self._logs.checkpoint(CLEANED_TO)

    def failed(self, log: Log, error: KafkaError) -> None:
        """Mark `log` uncleanable, except after KAFKA_STORAGE_ERROR (failed or full directory, no descriptors)."""
        if self._is_online(log) and error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            self.uncleanable[log] = str(error)
            self._logs.problems.append(f"{log} is uncleanable until the next start: {error}")

    def _is_online(self, log: Log) -> bool:
        return self._logs.get(log.topic, log.partition) is log and self._logs.directory_of(log).failure is None

    def _is_cleanable(self, log: Log) -> bool:
        """Return whether a log can be cleaned: online, and not being moved to another directory."""
        return self._is_online(log) and not self._logs.moves.is_moving(log)
