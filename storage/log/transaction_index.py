"""The transaction index of one segment (`.txnindex`): its aborted transactions (Kafka: `TransactionIndex`).

    offset  size
         0     2  version             0
         2     8  producer id
        10     8  first offset        the transaction's first, in this segment or an earlier one
        18     8  last offset         the marker's, in this segment
        26     8  last stable offset  where the first transaction still open begins, else the offset after the marker

The file is created with the first abort marker. An entry is written when the marker is appended, so last offsets
ascend. A read_committed fetch returns the aborted transactions that overlap its records. Their markers may be in later
segments, so the search continues up to the first entry whose last stable offset is at or after the end of the records:
later markers belong to transactions that began after them. Source: KIP-98 and the files of Apache Kafka.

The entries are a function of the log up to the segment's end: `ProducerStateManager.update` returns them. An entry that
could not be written stays in memory for `save`; after a crash, recovery rebuilds the index.
"""

from bisect import bisect_left
from contextlib import suppress
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

from protocol.errors import ErrorCode, KafkaError
from protocol.plural import count_of
from storage.disk import Buffer, Disk

TRANSACTION_INDEX_SUFFIX = ".txnindex"
VERSION = 0

ENTRY_FORMAT = ">hqqqq"
_ENTRY = Struct(ENTRY_FORMAT)
_last_offset = attrgetter("last_offset")


class AbortedTxn(NamedTuple):
    """An entry; first and last offset are inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndexError(KafkaError):
    """The file is not a valid transaction index. The next start rebuilds it; clients retry, as with Apache Kafka."""

    def __init__(self, problem: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, problem)


class AbortedTxns(NamedTuple):
    """The aborted transactions in a range of offsets; `complete` if later indexes have no more of them."""

    transactions: list[AbortedTxn]
    complete: bool


def encode_entries(entries: list[AbortedTxn]) -> bytes:
    """Return the content of an index file."""
    return b"".join([_ENTRY.pack(VERSION, *entry) for entry in entries])


def decode_entries(data: Buffer, base_offset: int) -> list[AbortedTxn]:
    """Return the entries of the segment at `base_offset`; raise TransactionIndexError if they are invalid."""
    if len(data) % _ENTRY.size:
        raise TransactionIndexError(f"{count_of(len(data), 'byte')}: not a multiple of the entry size, {_ENTRY.size}")
    entries: list[AbortedTxn] = []
    following = base_offset
    for number, (version, *fields) in enumerate(_ENTRY.iter_unpack(data)):
        entry = AbortedTxn(*fields)
        if version != VERSION:
            raise TransactionIndexError(f"entry {number} has unknown version {version}")
        if entry.last_offset < following:
            raise TransactionIndexError(f"entry {number} ends at {entry.last_offset}, {following} or more is expected")
        if min(entry) < 0 or entry.first_offset >= entry.last_offset:
            raise TransactionIndexError(f"entry {number} is invalid: {entry}")
        following = entry.last_offset + 1
        entries.append(entry)
    return entries


class TransactionIndex:
    """The aborted transactions whose markers are in the segment at `base_offset`. Every method may raise OSError.

    The file at `path` may be missing; it is read at the first use. Methods that read it raise TransactionIndexError if
    it is not a valid index.
    """

    __slots__ = ("_disk", "_entries", "_saved", "base_offset", "path", "unsynced")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self._disk = disk
        self._entries: list[AbortedTxn] | None = None
        self._saved = -1  # the number of entries that the file has; -1 if it may have others
        self.path = path
        self.base_offset = base_offset
        self.unsynced = False  # whether the file has content that no flush has taken yet

    @property
    def entries(self) -> list[AbortedTxn]:
        """Every entry, in the order of the markers; not to be changed."""
        entries = self._entries
        if entries is None:
            try:
                entries = self._entries = decode_entries(self._read(), self.base_offset) if self._saved else []
            except TransactionIndexError as error:
                raise TransactionIndexError(f"{self.path}: {error.message}") from None
            self._saved = len(entries)
        return entries

    @property
    def is_empty(self) -> bool:
        """Whether there is no entry; most segments have none, and no file."""
        if self._entries is None and self._saved < 0 and not self._disk.exists(self.path):
            self._saved = 0
        return self._saved == 0 if self._entries is None and self._saved >= 0 else not self.entries

    def load(self) -> None:
        """Read the file, so that changing the entries later cannot fail on its content."""
        self._entries = self.entries

    def sound(self) -> bool:
        """Return whether the file, if there is one, is a valid index."""
        try:
            return self.entries is not None
        except TransactionIndexError:
            return False

    def find(self, start_offset: int, end_offset: int) -> AbortedTxns:
        """Return the transactions with a record or marker from `start_offset` to below `end_offset`."""
        entries = self._entries
        found: list[AbortedTxn] = []
        if entries is None:
            entries = self.entries
        for number in range(bisect_left(entries, start_offset, key=_last_offset), len(entries)):
            entry = entries[number]
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return AbortedTxns(found, complete=True)
        return AbortedTxns(found, complete=False)

    def append(self, entry: AbortedTxn) -> None:
        """Add the transaction that a marker after all others has aborted; an unwritten entry waits for `save`."""
        self.entries.append(entry)
        if self._saved >= 0:
            with suppress(OSError):
                self.save()

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose marker is at or after `offset`."""
        entries = self.entries
        kept = bisect_left(entries, offset, key=_last_offset)
        if kept == len(entries):
            return
        del entries[kept:]
        if self._saved > kept:
            self.unsynced = True
            self._disk.open_file(self.path).truncate(kept * _ENTRY.size)
            self._saved = kept

    def rebuild(self) -> None:
        """Clear the index in memory; the file stays unchanged until `save` replaces it, if it differs."""
        self._entries = []
        self._saved = -1

    def save(self) -> None:
        """Write the entries that the file does not have yet; after `rebuild`, replace the content if it differs."""
        entries, saved = self._entries, self._saved
        if entries is None or saved == len(entries):
            return
        data = encode_entries(entries[max(saved, 0) :])
        wrong = saved >= 0 or self._read() != data
        # Sync it even if the content is right: an earlier process may have changed it just before it ended.
        self.unsynced = self.unsynced or wrong or self._disk.exists(self.path)
        if wrong:
            file = self._disk.open_file(self.path, create=True)
            file.pwrite(data, max(saved, 0) * _ENTRY.size)
            file.truncate(len(entries) * _ENTRY.size)
        self._saved = len(entries)

    def release(self) -> None:
        """Save, and free the memory; the next use reads the file again."""
        self.save()
        self._entries = None

    def _read(self) -> bytes:
        try:
            return self._disk.read_file(self.path)
        except FileNotFoundError:
            return b""
