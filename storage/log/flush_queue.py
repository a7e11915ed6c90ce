"""The flushes of one log: which are under way, and what the next has to sync besides the log's files.

Invariants: what a flush has taken is durable, or with the next one, before anything counts as durable behind it; the
names in the log's directory are synced with the files that they name. Which files are unsynced is known where they
are written (`files.py`, `segments.py`); how a single flush is done is in `flush.py`.
"""

from collections.abc import Callable

from storage.disk import Disk, File
from storage.log.flush import Flush
from storage.log_directory import DELETED, LogDirectory


class Flushes:
    """What `Log` knows of its flushes; `begun_ms` is when the last began, or the log was opened."""

    __slots__ = ("_disk", "_is_new", "_names_unsynced", "_under_way", "begun_ms")

    def __init__(self, disk: Disk, now_ms: int, *, is_new: bool = True) -> None:
        """Begin with a directory whose names are unsynced, and that has itself a name that may be if it `is_new`."""
        self._disk = disk
        self._is_new = is_new
        self._names_unsynced = True
        self._under_way: tuple[Flush, ...] = ()  # in the order in which they began
        self.begun_ms = now_ms

    def begin(
        self,
        files: list[File],
        path: str,
        home: LogDirectory,
        end_offset: int,
        cuts: int,
        finish: Callable[[Flush], None],
        *,
        names: bool,
        now_ms: int,
    ) -> Flush:
        """Return the flush that makes everything below `end_offset` durable: `files`, and what others have taken.

        The log's directory `path` in `home` is synced too if the `names` in it, or others before, are new; `cuts` and
        `finish` are as for `Flush`.
        """
        directories = []
        if names or self._names_unsynced:
            directories.append(path)
            self._names_unsynced = False
        if self._is_new:
            directories.append(home.path)
            self._is_new = False
        self.begun_ms = now_ms
        flush = Flush(self._disk, directories, files, self._under_way, end_offset, cuts, finish)
        self._under_way += (flush,)
        return flush

    def finish(self, flush: Flush, home: LogDirectory, cuts: int) -> int:
        """Return up to where a flush shows the log to be durable, -1 if nowhere, that has been cut `cuts` times.

        KAFKA_STORAGE_ERROR if it failed or the directory has, unless the log was deleted meanwhile.
        """
        if home.failure is not DELETED and (flush.error is not None or home.failure is not None):
            failed, self._under_way = self._under_way, ()
            for one in failed:
                one.settle()
            if flush.error is not None:
                raise home.give_up(flush.error) from flush.error
            raise home.offline()
        counting, self._under_way = flush.count_among(self._under_way)
        for one in counting:
            one.settle()
        return max((one.end_offset for one in counting if one.cuts == cuts), default=-1)

    def rolled(self, base_offset: int) -> None:
        """Let none that is under way count for the complete indexes of the segment before the one at `base_offset`."""
        for flush in self._under_way:
            flush.end_offset = min(flush.end_offset, base_offset - 1)
        self._names_unsynced = True

    def names_changed(self) -> None:
        """Take note that files have come, gone or got other names."""
        self._names_unsynced = True

    def sync_names(self, path: str) -> None:
        """Make durable which files there are in the log's directory `path`, unless they are; OSError."""
        if self._names_unsynced or self._under_way:
            self._disk.sync_dir(path)
