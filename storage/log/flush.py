"""A log's unsynced files on their way to the disk: one value that a thread can work on beside the loop.

fsync is what stalls: 5 to 50 ms where an append takes 10 us. So a flush is begun where the log lives (saves the
indexes, lists the files), synced in whatever thread, and finished where the log lives, which moves its
recovery point. A failed sync is never retried: the kernel may have dropped the pages and would report success.
Several may be under way; each takes what those before it left, and counts only once those have succeeded.
"""

from collections.abc import Callable
from contextlib import suppress
from errno import EIO

from storage.disk import Disk, File
from storage.log_directory import LogDirectory


class Flush:
    """What of a log is to be synced for everything below `end_offset` to be durable."""

    __slots__ = (
        "_directories", "_disk", "_files", "_finish", "_synced", "cuts", "end_offset", "error", "on_settled", "settled",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directories: list[str],
        files: list[File],
        under_way: tuple["Flush", ...],
        end_offset: int,
        cuts: int,
        finish: Callable[["Flush"], None],
    ) -> None:
        """Take the files and the directories that name them; `cuts` counts the log's truncations until then.

        What the flushes that are `under_way` have taken need not be synced when this one is, and so belongs to it too.
        """
        self._disk = disk
        self._directories = directories
        self._files = files
        for flush in under_way:
            files += [file for file in flush._files if file not in files]
            directories += [path for path in flush._directories if path not in directories]
        self._finish = finish
        self.cuts = cuts
        self.end_offset = end_offset
        # Until all of it is: whatever ended the thread that was to do it, nothing counts that is not synced.
        self.error: OSError | None = OSError(EIO, "not synced")
        self.settled = False
        self.on_settled: Callable[[], object] | None = None
        """Called once it is known whether it counts, which those that began before it decide too."""
        self._synced = False

    def sync(self) -> None:
        """Sync every file, and the directories that name them; an error is kept for `finish`. May run in a thread."""
        try:
            for file in self._files:
                file.sync()
            for directory in self._directories:
                with suppress(FileNotFoundError):  # of a log that has been moved or deleted meanwhile
                    self._disk.sync_dir(directory)
        except OSError as error:
            self.error = error
        else:
            self.error = None

    def count_among(self, under_way: tuple["Flush", ...]) -> tuple[tuple["Flush", ...], tuple["Flush", ...]]:
        """Note that all of it is on the disk; return which flushes count by that, and which are still under way."""
        self._synced = True
        count = next((at for at, flush in enumerate(under_way) if not flush._synced), len(under_way))
        return under_way[:count], under_way[count:]

    def settle(self) -> None:
        """Take note that it counts, or never will."""
        self.settled = True
        if self.on_settled is not None:
            self.on_settled()

    def finish(self) -> None:
        """Move the log's recovery point, or raise KAFKA_STORAGE_ERROR and take the log's directory offline."""
        self._finish(self)

    def run(self) -> None:
        """Sync here and now, and finish."""
        self.sync()
        self.finish()


def sync_cut(disk: Disk, home: LogDirectory, path: str, file: File) -> None:
    """Make durable at once that a log's `file` was cut and others were deleted; KafkaError if not.

    Otherwise a power cut could bring back what was cut off, behind what was written in its place since.
    """
    try:
        file.sync()
        disk.sync_dir(path)
    except OSError as error:
        raise home.give_up(error) from error
