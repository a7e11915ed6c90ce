"""One flush of a log: the files and directories to sync, which a thread can do while the loop runs.

A sync takes 5 to 50 ms, an append 10 us. So a flush has three parts: the loop begins it (saves the indexes, lists the
files), any thread syncs, and the loop finishes it: that moves the recovery point. A failed sync is never retried: the
kernel may have dropped the pages and would report success. Several flushes may be in progress; each includes the files
of the earlier ones, and completes after they have succeeded.
"""

from collections.abc import Callable
from contextlib import suppress
from errno import EIO

from storage.disk import Disk, File
from storage.log_directory import LogDirectory


class Flush:
    """The files and directories of a log to sync for everything below `end_offset` to be durable."""

    __slots__ = (
        "_directories", "_disk", "_files", "_finish", "_synced", "completed", "end_offset", "error", "on_completed",
        "truncations",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directories: list[str],
        files: list[File],
        in_progress: tuple["Flush", ...],
        end_offset: int,
        truncations: int,
        finish: Callable[["Flush"], None],
    ) -> None:
        """Include `files` and the directories that name them; `truncations` is the log's number of truncations so far.

        The files of the flushes `in_progress` are included: they may not be synced yet when this one is.
        """
        self._disk = disk
        self._directories = directories
        self._files = files
        for flush in in_progress:
            files += [file for file in flush._files if file not in files]
            directories += [path for path in flush._directories if path not in directories]
        self._finish = finish
        self.truncations = truncations
        self.end_offset = end_offset
        # An error until `sync` succeeds: if its thread ends in any other way, nothing counts as synced.
        self.error: OSError | None = OSError(EIO, "not synced")
        self.completed = False
        self.on_completed: Callable[[], object] | None = None
        """Called when the flush is completed, which may be later than `finish`: earlier flushes come first."""
        self._synced = False

    def sync(self) -> None:
        """Sync every file, and the directories that name them; keep an error for `finish`. May run in a thread."""
        try:
            for file in self._files:
                file.sync()
            for directory in self._directories:
                with suppress(FileNotFoundError):  # the log has been moved or deleted meanwhile
                    self._disk.sync_dir(directory)
        except OSError as error:
            self.error = error
        else:
            self.error = None

    def count_among(self, in_progress: tuple["Flush", ...]) -> tuple[tuple["Flush", ...], tuple["Flush", ...]]:
        """Mark this flush as synced; return the flushes that are complete now, and those still in progress."""
        self._synced = True
        count = next((at for at, flush in enumerate(in_progress) if not flush._synced), len(in_progress))
        return in_progress[:count], in_progress[count:]

    def complete(self) -> None:
        """Record that the flush counts as durable, or has failed."""
        self.completed = True
        if self.on_completed is not None:
            self.on_completed()

    def finish(self) -> None:
        """Move the log's recovery point, or raise KAFKA_STORAGE_ERROR and take the log's directory offline."""
        self._finish(self)

    def run(self) -> None:
        """Sync and finish before returning."""
        self.sync()
        self.finish()


def sync_truncation(disk: Disk, log_dir: LogDirectory, path: str, file: File) -> None:
    """Sync a log's truncated `file` and its directory before returning; raise KafkaError if that fails.

    Otherwise a power cut could restore what was truncated, after the batches written in its place since.
    """
    try:
        file.sync()
        disk.sync_dir(path)
    except OSError as error:
        raise log_dir.give_up(error) from error
