"""The flushes of one log that are in progress, and what the next one must sync besides the log's files.

Invariants: before a later offset counts as durable, the files of each earlier flush are durable or part of the next
flush; the names in the log's directory are synced together with the files that they name. `files.py` and `segments.py`
record which files are unsynced; `flush.py` is a single flush.
"""

from collections.abc import Callable

from storage.disk import Disk, File
from storage.log.flush import Flush
from storage.log_directory import DELETED, LogDirectory


class FlushQueue:
    """The flushes of one log; `begun_ms` is when the last one began, or when the log was opened."""

    __slots__ = ("_disk", "_in_progress", "_is_new", "_names_unsynced", "begun_ms")

    def __init__(self, disk: Disk, now_ms: int, *, is_new: bool = True) -> None:
        """Start with the names in the log's directory unsynced; with `is_new`, the directory's own name too."""
        self._disk = disk
        self._is_new = is_new
        self._names_unsynced = True
        self._in_progress: tuple[Flush, ...] = ()  # in the order in which they began
        self.begun_ms = now_ms

    def begin(
        self,
        files: list[File],
        path: str,
        log_dir: LogDirectory,
        end_offset: int,
        truncations: int,
        finish: Callable[[Flush], None],
        *,
        names: bool,
        now_ms: int,
    ) -> Flush:
        """Return a flush that makes everything below `end_offset` durable.

        It syncs `files`, those of the flushes in progress, the log's directory `path` if names in it are new (`names`,
        or since the last flush), and `log_dir` if the log's directory is new. `truncations` and `finish` are those of
        `Flush`.
        """
        directories = []
        if names or self._names_unsynced:
            directories.append(path)
            self._names_unsynced = False
        if self._is_new:
            directories.append(log_dir.path)
            self._is_new = False
        self.begun_ms = now_ms
        flush = Flush(self._disk, directories, files, self._in_progress, end_offset, truncations, finish)
        self._in_progress += (flush,)
        return flush

    def finish(self, flush: Flush, log_dir: LogDirectory, truncations: int) -> int:
        """Complete `flush`; return the offset below which the log is durable by it, -1 if it adds nothing.

        A flush that began before the last of the log's `truncations` adds nothing. Raise KAFKA_STORAGE_ERROR if the
        flush or the directory has failed, unless the log was deleted meanwhile.
        """
        if log_dir.failure is not DELETED and (flush.error is not None or log_dir.failure is not None):
            failed, self._in_progress = self._in_progress, ()
            for one in failed:
                one.complete()
            if flush.error is not None:
                raise log_dir.give_up(flush.error) from flush.error
            raise log_dir.offline()
        counting, self._in_progress = flush.count_among(self._in_progress)
        for one in counting:
            one.complete()
        return max((one.end_offset for one in counting if one.truncations == truncations), default=-1)

    def rolled(self, sealed: int, base_offset: int) -> None:
        """Limit the flushes in progress to below the segment `sealed` at `base_offset`.

        Its indexes were saved after they began. The limit is a base offset, since high watermarks may follow it.
        """
        for flush in self._in_progress:
            if flush.end_offset >= base_offset:
                flush.end_offset = sealed
        self._names_unsynced = True

    def names_changed(self) -> None:
        """Record that files were created, deleted or renamed in the log's directory."""
        self._names_unsynced = True

    def sync_names(self, path: str) -> None:
        """Sync the log's directory `path`, unless its names are durable; raise OSError."""
        if self._names_unsynced or self._in_progress:
            self._disk.sync_dir(path)
