"""The transaction index: its bytes, searches, truncation and damage."""

import errno
from pathlib import Path

import pytest

from storage.disk import OsDisk
from storage.log.transaction_index import (
    AbortedTxn,
    TransactionIndex,
    TransactionIndexError,
    decode_entries,
    encode_entries,
)
from tests.disks import FaultyDisk

BASE = 100
# The second lies within the first, which began in an earlier segment; the third follows.
ENTRIES = [AbortedTxn(2, 105, 120, 90), AbortedTxn(1, 90, 130, 131), AbortedTxn(1, 140, 150, 151)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{BASE:020}.txnindex"


def index(path: Path, disk: OsDisk | None = None) -> TransactionIndex:
    return TransactionIndex(disk or OsDisk(), str(path), BASE)


def filled(path: Path, disk: OsDisk | None = None) -> TransactionIndex:
    made = index(path, disk)
    for entry in ENTRIES:
        made.append(entry)
    return made


def test_an_entry_is_a_version_and_four_numbers() -> None:
    assert encode_entries([AbortedTxn(1, 2, 3, 4)]).hex() == "0000" + "".join(
        f"{number:016x}" for number in (1, 2, 3, 4)
    )


def test_there_is_no_file_before_the_first_entry(path: Path) -> None:
    empty = index(path)
    assert empty.entries == []
    assert empty.sound()
    empty.save()
    empty.release()
    assert not path.exists()
    assert not empty.unsynced


def test_entries_are_on_disk_as_soon_as_they_are_appended(path: Path) -> None:
    filled(path)
    assert path.read_bytes() == encode_entries(ENTRIES)
    assert index(path).entries == ENTRIES


def test_a_changed_file_is_to_be_synced(path: Path) -> None:
    made = filled(path)
    assert made.unsynced
    made.unsynced = False
    made.truncate_to(130)
    assert made.unsynced


@pytest.mark.parametrize(
    ("start", "end", "found", "complete"),
    [
        (0, 90, [], True),  # at the abort of the first no transaction from before 90 was open
        (0, 91, [1], True),
        (0, 105, [1], True),
        (100, 106, [0, 1], True),
        (120, 121, [0, 1], True),
        (121, 122, [1], True),
        (131, 140, [], True),
        (131, 151, [2], True),
        (131, 152, [2], False),  # a transaction that began at 151 may end in a later segment
        (151, 152, [], False),
    ],
)
def test_a_range_finds_the_transactions_that_reach_into_it(
    start: int, end: int, found: list[int], complete: bool, path: Path
) -> None:
    assert filled(path).find(start, end) == ([ENTRIES[number] for number in found], complete)


@pytest.mark.parametrize(("offset", "kept"), [(0, 0), (120, 0), (121, 1), (130, 1), (150, 2), (151, 3)])
def test_truncation_removes_entries_of_removed_markers(offset: int, kept: int, path: Path) -> None:
    made = filled(path)
    made.truncate_to(offset)
    assert made.entries == index(path).entries == ENTRIES[:kept]
    again = ENTRIES[kept:]
    for entry in again:
        made.append(entry)
    assert index(path).entries == ENTRIES


def test_entries_that_a_full_disk_rejects_are_kept_and_written_later(path: Path) -> None:
    disk = FaultyDisk()
    made = index(path, disk)
    made.append(ENTRIES[0])
    disk.arm("pwrite", errno.ENOSPC)
    made.append(ENTRIES[1])
    assert made.entries == ENTRIES[:2]
    assert len(path.read_bytes()) < len(encode_entries(ENTRIES[:2]))  # the fault leaves half of a write
    made.append(ENTRIES[2])
    assert path.read_bytes() == encode_entries(ENTRIES)


def test_release_frees_only_entries_that_are_on_disk(path: Path) -> None:
    disk = FaultyDisk()
    made = index(path, disk)
    disk.full = True
    made.append(ENTRIES[0])
    with pytest.raises(OSError, match="No space"):
        made.release()
    assert made.entries == ENTRIES[:1]
    disk.full = False
    made.release()
    assert made.entries == ENTRIES[:1]


@pytest.mark.parametrize("there", [None, b"", encode_entries(ENTRIES), encode_entries(ENTRIES[1:]), b"no index at all"])
def test_rebuilt_index_replaces_any_file(there: bytes | None, path: Path) -> None:
    if there is not None:
        path.write_bytes(there)
    made = index(path)
    made.rebuild()
    for entry in ENTRIES:
        made.append(entry)
    assert not made.unsynced  # not yet: it may equal the file on disk
    made.save()
    assert path.read_bytes() == encode_entries(ENTRIES)
    assert made.unsynced  # even if it equals the file: the process that wrote it may have died before the sync


def test_valid_empty_index_is_synced_too(path: Path) -> None:
    path.write_bytes(b"")  # by a process that truncated it and died before the sync
    made = index(path)
    made.rebuild()
    made.save()
    assert made.unsynced


def test_rebuilt_index_without_entries_leaves_no_file(path: Path) -> None:
    path.write_bytes(encode_entries(ENTRIES))
    made = index(path)
    made.rebuild()
    made.save()
    assert path.read_bytes() == b""


def damaged(number: int, **fields: int) -> bytes:
    return encode_entries([entry._replace(**fields) if at == number else entry for at, entry in enumerate(ENTRIES)])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (encode_entries(ENTRIES)[:-1], "101 bytes: not a multiple of the entry size, 34"),
        (b"\0\1" + encode_entries(ENTRIES)[2:], "entry 0 has unknown version 1"),
        (damaged(0, last_offset=99), "entry 0 ends at 99, 100 or more is expected"),
        (damaged(1, last_offset=120), "entry 1 ends at 120, 121 or more is expected"),
        (damaged(1, producer_id=-1), "entry 1 is invalid"),
        (damaged(2, first_offset=-1), "entry 2 is invalid"),
        (damaged(2, first_offset=150), "entry 2 is invalid"),
        (damaged(2, last_stable_offset=-1), "entry 2 is invalid"),
    ],
)
def test_invalid_index_file_is_named_and_stays_unchanged(content: bytes, complaint: str, path: Path) -> None:
    with pytest.raises(TransactionIndexError, match=complaint):
        decode_entries(content, BASE)
    path.write_bytes(content)
    found = index(path)
    assert not found.sound()
    with pytest.raises(TransactionIndexError, match=str(path)):
        found.find(0, 1000)
    found.release()
    assert path.read_bytes() == content
