"""Replaces segments by a new one so that after a crash at any point the log has either the old or the new records.

    write     X.log.cleaned ...                        crash: deleted at the next start
    sync      the files and the directory
    commit    rename to X.log.swap ...                 crash before the directory is synced: old or new
    sync      the directory                            crash: the next start completes the swap
    replace   the log uses the new segment; the files of the old ones become .deleted
    sync      the directory, so that no old segment reappears beside the new one
    finish    rename to X.log ...
    sync      the directory, before the next pass creates X.log.cleaned, which would revert this swap

Syncs run in a thread; the steps between two syncs run without interruption. `interrupt` may be called at any time, and
must be called before the log drops records: it deletes files that are not part of the log yet, and finishes a swap
whose segments were replaced. File names and order are Kafka's (`UnifiedLog.replaceSegments`), so that each broker
completes swaps of the other. `swap_recovery.py` runs at the next start.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from protocol.record_batch import BatchHeader
from storage.disk import Disk, File
from storage.log.log import Log
from storage.log.segment import CLEANED_SUFFIX, SWAP_SUFFIX, LogSegment
from storage.log.segments import take_unsynced
from storage.log.transaction_index import AbortedTxn
from storage.log_directory import LogDirectory
from storage.steps import Steps


class SegmentSwap:
    """The replacement of the segments `old` of `log` by one."""

    __slots__ = ("_disk", "_home", "_log", "_made", "_old", "_replaced", "_replacing", "interrupted")

    def __init__(self, disk: Disk, home: LogDirectory, log: Log, old: Sequence[LogSegment], now_ms: int) -> None:
        """Create the empty new segment; OSError if that fails."""
        self._disk = disk
        self._home = home
        self._log = log
        self._old = old
        self._replacing = False
        self._replaced = False
        self.interrupted = False
        self._made = LogSegment.create(disk, log.directory, old[0].base_offset, now_ms, CLEANED_SUFFIX)

    def append(self, records: bytearray, headers: Sequence[BatchHeader], ended: Iterable[AbortedTxn]) -> None:
        """Append whole batches, and to the index the aborted transactions `ended` by them; OSError."""
        self._made.append(records, headers, self._log.config.index_interval_bytes)
        for transaction in ended:
            self._made.transaction_index.append(transaction)

    def complete(self, now_ms: Callable[[], int]) -> Steps[bool]:
        """Replace the old segments by the new one. Return False if the swap is aborted, as when an old one is gone."""
        made, log, directory = self._made, self._log, self._log.directory
        made.seal()
        yield partial(_sync, self._disk, take_unsynced(self._disk, [made]), directory)
        if self._obsolete():
            return False
        made.rename(SWAP_SUFFIX)
        yield partial(self._disk.sync_dir, directory)
        if self._obsolete():
            return False
        self._replacing = True
        try:
            log.replace_segments(self._old, made, now_ms())
            self._replaced = True
            yield partial(self._disk.sync_dir, directory)
            if not self.interrupted:
                self._finish()
                yield partial(self._disk.sync_dir, directory)
        except OSError as error:
            raise self._home.give_up(error) from error  # the next start completes the swap
        return True

    def interrupt(self) -> None:
        """Abort the swap and delete its files, unless it was committed to the log; no effect once complete.

        If renaming the old files failed, the new segment may hold the only copy of their records: it is kept, and the
        next start completes the swap.
        """
        if self.interrupted:
            return
        self.interrupted = True
        if self._replaced:
            self._finish()
        elif not self._replacing:
            self._made.remove()

    def _finish(self) -> None:
        if self._made in self._log.segments:  # otherwise retention removed it, with its files
            self._made.rename("")

    def _obsolete(self) -> bool:
        """Return whether the swap was aborted; abort it if an old segment is gone."""
        if not self.interrupted and not set(self._old).issubset(self._log.segments):
            self.interrupt()
        return self.interrupted


def _sync(disk: Disk, files: Sequence[File], directory: str) -> None:
    for file in files:
        file.sync()
    disk.sync_dir(directory)
