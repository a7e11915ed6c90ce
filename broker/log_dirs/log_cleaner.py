"""Log compaction on the event loop, in slices between requests (Kafka: `LogCleaner`).

A slice is the number of bytes that recently took about `_SLICE_S`. Disk waits and large decompressions run in a thread.
The rules live in `storage.cleaner`. Between two passes over all logs the cleaner rests for `log.cleaner.backoff.ms`;
`log.cleaner.io.max.bytes.per.second` limits its reads and writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from broker.runtime.executors import await_thread
from protocol.errors import KafkaError
from protocol.plural import count_of

if TYPE_CHECKING:
    from storage.cleaner.cleaner_manager import CleanerManager
    from storage.cleaner.cleaner_pass import CleanerPass
    from storage.disk import Disk
    from storage.log_manager import LogManager

_SLICE_S = 0.0005
_MIN_SLICE_BYTES = 4 * 1024
_MAX_SLICE_BYTES = 1024 * 1024
_BURST_S = 0.1

_log = logging.getLogger("broker.log_dirs.log_cleaner")


class LogCleaner:
    """Compacts the logs that are due, and counts for the metrics."""

    def __init__(
        self,
        disk: Disk,
        logs: LogManager,
        setting: Callable[[str], Any],
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
    ) -> None:
        """Read current broker settings with `setting`."""
        self._disk = disk
        self._logs = logs
        self._now_ms = now_ms
        self._due_s = loop.time()
        self._setting = setting
        self._loop = loop
        self._slice_bytes = _MIN_SLICE_BYTES * 4
        self._manager: CleanerManager | None = None  # created in the first `run`, with the import of its module
        self.passes = self.bytes_read = self.bytes_written = 0

    @property
    def max_dirty_percent(self) -> int:
        """Return the largest dirty percentage of any log at the last check."""
        return 0 if self._manager is None else self._manager.max_dirty_percent

    @property
    def uncleanable_count(self) -> int:
        """Return the number of logs that are no longer compacted because a pass over them failed."""
        return 0 if self._manager is None else len(self._manager.uncleanable)

    @cached_property
    def _throttle(self) -> Throttle:
        return Throttle(self._setting("log.cleaner.io.max.bytes.per.second"), self._loop.time())

    async def run_if_due(self) -> None:
        """Run if the backoff has passed; without compacted logs, the cleaner's modules are not imported."""
        if self._loop.time() >= self._due_s:  # monotonic: the wall clock may be set back
            if any("compact" in log.config.cleanup_policy for log in self._logs):
                await self.run()
            self._due_s = self._loop.time() + self._setting("log.cleaner.backoff.ms") / 1000

    async def run(self) -> None:
        """Compact logs until none is due."""
        from storage.cleaner.cleaner_manager import CleanerManager

        manager = self._manager = self._manager or CleanerManager(self._disk, self._logs, now_ms=self._now_ms)
        while (cleaner_pass := await self._next(manager)) is not None:
            try:
                await self._perform(cleaner_pass)
                manager.finished(cleaner_pass)
            except KafkaError as error:
                manager.failed(cleaner_pass.log, error)
                _log.error("%s cannot be compacted: %s", cleaner_pass.log, error)
                return  # on a full disk the next log would fail too
            except BaseException:  # cancelled, or no thread could be started
                cleaner_pass.stop()
                raise
            finally:
                self.bytes_read += cleaner_pass.bytes_read
                self.bytes_written += cleaner_pass.bytes_written
            if cleaner_pass.cleaned_to is None:
                return  # interrupted: the log is being changed otherwise
            self.passes += 1
            _log.info(
                "Compacted %s up to offset %d: %s before, %d now",
                cleaner_pass.log,
                cleaner_pass.cleaned_to,
                count_of(cleaner_pass.bytes_before, "byte"),
                cleaner_pass.bytes_written,
            )

    async def _next(self, manager: CleanerManager) -> CleanerPass | None:
        from storage.cleaner.cleaner_manager import CleanerConfig

        config = CleanerConfig(
            self._setting("log.cleaner.dedupe.buffer.size"),
            self._setting("log.cleaner.io.buffer.load.factor"),
            self._setting("log.cleaner.io.buffer.size"),
        )
        for found in manager.next(config):
            if found is not None:
                return found
            await asyncio.sleep(0)
        return None

    async def _perform(self, cleaner_pass: CleanerPass) -> None:
        while not cleaner_pass.done:
            done_bytes = cleaner_pass.bytes_read + cleaner_pass.bytes_written
            begun = self._loop.time()
            call = cleaner_pass.step(self._slice_bytes)
            self._adapt(self._loop.time() - begun)
            if call is not None:
                await await_thread(self._loop.run_in_executor(None, call))
            now = self._loop.time()
            self._throttle.bytes_per_s = self._setting("log.cleaner.io.max.bytes.per.second")
            rest_s = self._throttle.use(cleaner_pass.bytes_read + cleaner_pass.bytes_written - done_bytes, now)
            await asyncio.sleep(rest_s)

    def _adapt(self, took_s: float) -> None:
        """Adjust the slice size so that a slice takes about `_SLICE_S`."""
        if took_s > 2 * _SLICE_S:
            self._slice_bytes = max(self._slice_bytes // 2, _MIN_SLICE_BYTES)
        elif took_s < _SLICE_S:
            self._slice_bytes = min(self._slice_bytes + self._slice_bytes // 4, _MAX_SLICE_BYTES)


class Throttle:
    """A token bucket that fills at `bytes_per_s` and holds at most 0.1 s of it (Kafka: `Throttler`)."""

    __slots__ = ("_bytes", "_last_s", "bytes_per_s")

    def __init__(self, bytes_per_s: float, now_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self._last_s = now_s
        self._bytes = 0.0

    def use(self, size_bytes: int, now_s: float) -> float:
        """Take `size_bytes` that were read or written, and return for how many seconds to pause from `now_s` on."""
        rate = self.bytes_per_s
        earned = (now_s - self._last_s) * rate
        self._last_s = now_s
        self._bytes = min(self._bytes + earned, rate * _BURST_S) - size_bytes
        return max(-self._bytes / rate, 0.0)
