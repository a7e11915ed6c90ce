"""A log's unsynced files on their way to the disk: one value that a thread can work on beside the loop.

fsync is what stalls: 5 to 50 ms where an append takes 10 us. So a flush is begun where the log lives (saves the
indexes, lists the files), synced in whatever thread, and finished where the log lives, which moves its
recovery point. A failed sync is never retried: the kernel may have dropped the pages and would report success.
"""

from collections.abc import Callable

from storage.disk import Disk, File


class Flush:
    """What of a log is to be synced for everything below `end_offset` to be durable."""

    __slots__ = ("_directories", "_disk", "_files", "_finish", "cuts", "end_offset", "error")

    def __init__(
        self,
        disk: Disk,
        directories: list[str],
        files: list[File],
        end_offset: int,
        cuts: int,
        finish: Callable[["Flush"], None],
    ) -> None:
        """Take the files and the directories that name them; `cuts` counts the log's truncations until then."""
        self._disk = disk
        self._directories = directories
        self._files = files
        self._finish = finish
        self.cuts = cuts
        self.end_offset = end_offset
        self.error: OSError | None = None

    def sync(self) -> None:
        """Sync every file, and the directories that name them; an error is kept for `finish`. May run in a thread."""
        try:
            for file in self._files:
                file.sync()
            for directory in self._directories:
                self._disk.sync_dir(directory)
        except OSError as error:
            self.error = error

    def finish(self) -> None:
        """Move the log's recovery point, or raise KAFKA_STORAGE_ERROR and take the log's directory offline."""
        self._finish(self)

    def run(self) -> None:
        """Sync here and now, and finish."""
        self.sync()
        self.finish()
