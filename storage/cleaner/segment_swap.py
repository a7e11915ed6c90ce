"""A new segment in the place of old ones, so that a crash at any point leaves either those or this.

    write     X.log.cleaned ...                        a crash: deleted at the next start
    sync      the files, and the directory that names them
    commit    rename to X.log.swap ...                 a crash before the directory is synced: either
    sync      the directory                            a crash: the next start completes the swap
    replace   the log takes the new segment, the old ones' files become .deleted
    sync      the directory, so that no old segment comes back beside the new one
    finish    rename to X.log ...
    sync      the directory, before the next pass makes X.log.cleaned, which would undo this one

Syncs are for a thread; everything between two of them is done in one go. `interrupt` may come at any time, before the
log loses records: files that are not the log's yet are deleted, and a swap that has happened is finished. Names and
order are Apache Kafka's, which completes our swaps as we complete its; the next start is `swap_recovery.py`'s.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from protocol.record_batch import BatchHeader
from storage.disk import Disk, File
from storage.log.log import Log
from storage.log.segment import CLEANED_SUFFIX, SWAP_SUFFIX, Segment
from storage.log.segments import take_unsynced
from storage.log.transaction_index import AbortedTxn
from storage.log_directory import LogDirectory
from storage.steps import Search


class Swap:
    """The making of one segment out of `old` ones of `log`."""

    __slots__ = ("_disk", "_home", "_log", "_made", "_old", "_replaced", "_replacing", "interrupted")

    def __init__(self, disk: Disk, home: LogDirectory, log: Log, old: Sequence[Segment], now_ms: int) -> None:
        """Begin with an empty new segment; OSError if it cannot be made."""
        self._disk = disk
        self._home = home
        self._log = log
        self._old = old
        self._replacing = False
        self._replaced = False
        self.interrupted = False
        self._made = Segment.create(disk, log.directory, old[0].base_offset, now_ms, CLEANED_SUFFIX)

    def append(self, records: bytearray, headers: Sequence[BatchHeader], ended: Iterable[AbortedTxn]) -> None:
        """Write whole batches, and in the index the aborted transactions that end in them; OSError."""
        self._made.append(records, headers, self._log.config.index_interval_bytes)
        for transaction in ended:
            self._made.transaction_index.append(transaction)

    def complete(self, now_ms: Callable[[], int]) -> Search[bool]:
        """Let the new segment be the log's; tell whether it is. Not if the old ones have left the log meanwhile."""
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
            raise self._home.give_up(error) from error  # the next start makes right what is half done
        return True

    def interrupt(self) -> None:
        """Leave the log as it is, without files of this behind; nothing if it is complete.

        Where the disk failed while the old files were renamed, the new segment has the only copy of their records: it
        stays, and the next start completes the swap.
        """
        if self.interrupted:
            return
        self.interrupted = True
        if self._replaced:
            self._finish()
        elif not self._replacing:
            self._made.remove()

    def _finish(self) -> None:
        if self._made in self._log.segments:  # else retention took it, and its files
            self._made.rename("")

    def _obsolete(self) -> bool:
        """Tell whether what was made is of no use, and drop it then."""
        current = self._log.segments
        if not self.interrupted and not all(segment in current for segment in self._old):
            self.interrupt()
        return self.interrupted


def _sync(disk: Disk, files: Sequence[File], directory: str) -> None:
    for file in files:
        file.sync()
    disk.sync_dir(directory)
