"""Repairs a damaged log, in steps that are listed first and executed on request.

- Bytes of a `.log` file that are not a valid batch are moved to the file `<name>.<position>.damaged`. An empty batch,
  as compaction writes them, takes the place of the lost offsets: later batches keep theirs, and consumers read on.
- A length, magic, base offset or leader epoch, which the CRC does not cover, is corrected if the neighbouring batches
  allow only one value.
- Files derived from the batches are rebuilt: offset, time and transaction indexes, leader epochs.
- Damaged files that cannot be rebuilt are renamed, with their readable lines, and the broker creates new ones: producer
  snapshots, the topic id, offset checkpoints.
- Offsets in a checkpoint above the log end offset are lowered to it, as a start does.
- The metadata log, its snapshots, `quorum-state` and `meta.properties` are not repaired: with a part of them, a node
  would continue with wrong metadata or votes. `left_alone` lists them, and every other finding that no step repairs.

A valid batch is never removed. If two batches have the same offsets, neither is changed.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from protocol.plural import count_of
from protocol.record_batch import BatchHeader, empty_batch, end_txn_marker, read_header, set_header
from storage.checkpoint import TopicPartition, format_leader_epochs, format_offsets, parse_offsets
from storage.disk import Disk
from storage.inspection import kinds
from storage.inspection.findings import UNREADABLE, Finding
from storage.inspection.kinds import DAMAGED_SUFFIX, Kind
from storage.inspection.partition import first_producers
from storage.inspection.pieces import Piece, pieces, read_piece
from storage.log.config import LogConfig
from storage.log.leader_epochs import LeaderEpochs
from storage.log.names import METADATA_TOPIC, log_name
from storage.log.producer_state import ProducerStateManager
from storage.log.recovery import scan
from storage.log.segment import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, LogSegment, segment_path
from storage.log.transaction_index import TRANSACTION_INDEX_SUFFIX, AbortedTxn, encode_entries

_MAX_DELTA = 2**31 - 1
_INDEXES = (Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TXN_INDEX)
_OF_THE_CLUSTER = (Kind.META, Kind.QUORUM, Kind.SNAPSHOT)


class Step(NamedTuple):
    """A change to a file: its description and the function that makes it; `do` is None if it is not repaired."""

    path: str
    what: str
    do: Callable[[], None] | None
    also: Collection[str] = ()
    """The other files that the step repairs."""


class _Edit(NamedTuple):
    """A replacement of a byte range of a `.log` file by `data`; the old bytes go to a `.damaged` file if `keep`."""

    position: int
    size_bytes: int
    data: bytes
    keep: bool


def repair_log(disk: Disk, directory: str, findings: Collection[Finding], *, compacted: bool) -> Iterator[Step]:
    """Yield, in order, the steps that repair the log in `directory`; `findings` must be all of its findings."""
    if kinds.topic_of(directory) == METADATA_TOPIC:
        yield from (Step(one.path, f"{one.field}: restore the file from a copy", None) for one in findings)
        return
    if any(one.field == UNREADABLE for one in findings):
        return  # its content is unknown
    damaged = {one.path for one in findings}
    bases = kinds.segment_bases(disk, directory)
    changed: set[int] = set()
    walk = _Walk(bases[0] if bases else 0, compacted=compacted)
    rewritten: list[Step] = []
    txn_indexes = {
        path
        for path in damaged
        if path.endswith(TRANSACTION_INDEX_SUFFIX) and kinds.base_offset(path.rpartition("/")[2]) in bases
    }
    for number, base in enumerate(bases):
        path = segment_path(directory, base, LOG_SUFFIX)
        edits, changes = walk.segment(disk, path, bases[number + 1] if number + 1 < len(bases) else None)
        if walk.overlap:
            yield Step(path, walk.overlap, None)
            return
        rewritten += [Step(path, what, _nothing) for what in changes]
        if edits:
            changed.add(base)
            if base == bases[-1] and changed == {base} and all(edit.keep for edit in edits):
                # The removed end may hold transactions that the transaction index lists.
                txn_indexes.update(_existing(disk, segment_path(directory, base, TRANSACTION_INDEX_SUFFIX)))
            what = "is rewritten, with all other bytes unchanged"
            # All logs: a finding about an offset may name the segment before or after the damaged one.
            logs = [segment_path(directory, other, LOG_SUFFIX) for other in bases]
            rewritten.append(Step(path, what, partial(_rewrite, disk, path, edits), logs))
    yield from rewritten
    for base in bases:
        names = [segment_path(directory, base, suffix) for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
        if base in changed or damaged.intersection(names):
            what = "is rebuilt from the batches, with the time index"
            yield Step(names[0], what, partial(_index, disk, directory, base), names)
    producers = first_producers(disk, directory, bases[0]) if txn_indexes and not compacted else None
    if producers is None:
        for path in sorted(damaged & txn_indexes):
            yield Step(path, "cannot be rebuilt: the producers before the first batch are unknown", None)
    elif txn_indexes:
        what = f"is rebuilt from the batches{', with others' if len(txn_indexes) > 1 else ''}"
        rebuild = partial(_index_transactions, disk, directory, bases, producers, txn_indexes)
        yield Step(min(txn_indexes), what, rebuild, txn_indexes)
    for path in sorted(damaged):
        kind = kinds.kind_of(path.rpartition("/")[2])
        if kind is Kind.EPOCHS:
            yield Step(path, "is rebuilt from the batches", partial(_write_epochs, disk, path, bases))
        elif kind in (Kind.PRODUCERS, Kind.PARTITION, Kind.MOVES) or (
            kind in _INDEXES and kinds.base_offset(path.rpartition("/")[2]) not in bases
        ):
            yield Step(
                path, f"is renamed to {_damaged_path(disk, path).rpartition('/')[2]}", partial(_rename, disk, path)
            )


def repair_small_file(disk: Disk, path: str, findings: Collection[Finding]) -> Iterator[Step]:
    """Yield the steps that repair a file directly in a data directory."""
    kind = kinds.kind_of(path.rpartition("/")[2])
    if kind is None or any(one.field == UNREADABLE for one in findings):
        yield from left_alone(findings, ())
    elif kind in _OF_THE_CLUSTER:
        yield from (Step(path, f"{one.field}: restore the file from a copy", None) for one in findings)
    else:
        yield Step(path, f"is renamed to {_damaged_path(disk, path).rpartition('/')[2]}", partial(_rename, disk, path))
    if path.endswith(f"/{kinds.CLEANER_OFFSETS}"):
        # Without this file, gaps in any log are treated as data loss; while it is empty, any log may be compacted.
        yield Step(path, "is replaced by an empty file", partial(disk.replace_file, path, b""))


def clamp_offsets(disk: Disk, path: str, ends: Mapping[TopicPartition, int]) -> Iterator[Step]:
    """Yield the step that lowers offsets of a valid checkpoint to the log end offsets in `ends`."""
    offsets = parse_offsets(disk.read_file(path).decode(errors="replace"), path)
    clamped = {key: min(offset, ends.get(key, offset)) for key, offset in offsets.items()}
    if clamped != offsets:
        changes = ", ".join(
            f"{log_name(key)} to {clamped[key]} instead of {offset}, which is above its log end offset"
            for key, offset in offsets.items()
            if clamped[key] != offset
        )
        yield Step(path, f"sets {changes}", partial(disk.replace_file, path, format_offsets(clamped).encode()))


def left_alone(findings: Collection[Finding], steps: Collection[Step]) -> Iterator[Step]:
    """Yield a step without action for each finding that no step repairs; record contents are never changed."""
    repaired = {path for step in steps for path in (step.path, *step.also)}
    for finding in findings:
        if finding.path not in repaired or (finding.field == "records" and finding.path.endswith(LOG_SUFFIX)):
            yield Step(finding.path, f"{finding.field}: {finding.problem}", None)


class _Walk:
    """Decides, piece by piece in log order, what a repair changes."""

    def __init__(self, start_offset: int, *, compacted: bool) -> None:
        self._compacted = compacted
        self._next_offset = start_offset
        self._epoch = -1
        self.overlap = ""

    def segment(self, disk: Disk, path: str, following: int | None) -> tuple[list[_Edit], list[str]]:
        """Return the edits of a segment, and a description of each; `following` is the next segment's base offset."""
        file, size = disk.open_file(path), disk.file_size(path)
        edits: list[_Edit] = []
        changes: list[str] = []
        found = list(pieces(file, size))
        behind = _next_headers(found)
        damaged = False
        for piece, (after, after_that) in zip(found, behind, strict=True):
            found_header = piece.header or piece.original
            if found_header is None:
                damaged = True
                edits.append(_Edit(piece.position, piece.size_bytes, b"", keep=True))
                aside = _damaged_path(disk, path, piece.position).rpartition("/")[2]
                changes.append(
                    f"{count_of(piece.size_bytes, 'byte')} at {piece.position} without a batch: moved to {aside}"
                )
                continue
            if self._epoch < 0 and after is not None and after_that is not None:
                # The first batch has no predecessor: its epoch is changed only if the next two batches agree on a lower
                # one.
                is_odd = found_header.partition_leader_epoch > after.partition_leader_epoch
                if is_odd and after.partition_leader_epoch == after_that.partition_leader_epoch:
                    self._epoch = after.partition_leader_epoch
            header = self._corrected(found_header, after, following)
            if header.base_offset < self._next_offset:
                self.overlap = f"the offsets of the batch at byte {piece.position} overlap others: remove one of them"
                return [], []
            if damaged or not self._compacted:
                self._fill_gap(piece.position, header.base_offset, edits, changes)
            damaged = False
            if header != piece.header:
                data = bytearray(read_piece(file, piece))
                before = read_header(data)
                set_header(data, header)
                edits.append(_Edit(piece.position, piece.size_bytes, bytes(data), keep=False))
                fields = [
                    f"{name} {new} instead of {old}"
                    for name, new, old in zip(header._fields, header, before, strict=True)
                    if new != old
                ]
                changes.append(f"the batch at {piece.position}: {', '.join(fields)}")
            self._next_offset, self._epoch = header.next_offset, header.partition_leader_epoch
        if following is not None:
            if self._next_offset > following:
                self.overlap = (
                    f"its last offset {self._next_offset - 1} is in the next segment's range: remove one of them"
                )
                return [], []
            if damaged or not self._compacted:
                self._fill_gap(size, following, edits, changes)
            self._next_offset = following
        return edits, changes

    def _corrected(self, header: BatchHeader, after: BatchHeader | None, following: int | None) -> BatchHeader:
        """Return the header that a batch should have, from the batches before and after it."""
        count = header.last_offset_delta + 1
        limit = after.base_offset if after is not None else following
        fits = self._next_offset + count == limit
        if header.base_offset != self._next_offset and (
            fits or (header.base_offset < self._next_offset and (limit is None or self._next_offset + count <= limit))
        ):
            header = header._replace(base_offset=self._next_offset)
        epoch, before = header.partition_leader_epoch, self._epoch
        if epoch < before or (after is not None and before == after.partition_leader_epoch != epoch and before >= 0):
            header = header._replace(partition_leader_epoch=before)
        return header

    def _fill_gap(self, position: int, until: int, edits: list[_Edit], changes: list[str]) -> None:
        """Insert an empty batch at `position` if offsets below `until` are missing."""
        start = self._next_offset
        if start < until <= start + _MAX_DELTA:
            edits.append(_Edit(position, 0, bytes(empty_batch(start, until - 1, self._epoch)), keep=False))
            changes.append(f"an empty batch fills offsets {start} to {until - 1}, which are missing")
            self._next_offset = until


def _next_headers(found: list[Piece]) -> list[tuple[BatchHeader | None, BatchHeader | None]]:
    """Return for each piece the headers of the next two batches."""
    behind: list[tuple[BatchHeader | None, BatchHeader | None]] = []
    after: BatchHeader | None = None
    after_that: BatchHeader | None = None
    for piece in reversed(found):
        behind.append((after, after_that))
        header = piece.header or piece.original
        if header is not None:
            after, after_that = header, after
    behind.reverse()
    return behind


def _existing(disk: Disk, path: str) -> list[str]:
    return [path] if disk.exists(path) and disk.file_size(path) else []


def _nothing() -> None:
    """Do nothing; the next step includes this one."""


def _rewrite(disk: Disk, path: str, edits: list[_Edit]) -> None:
    """Save the bytes to be kept, then replace the file by the edited one."""
    source, size = disk.open_file(path), disk.file_size(path)
    for edit in edits:
        if edit.keep:
            disk.replace_file(_damaged_path(disk, path, edit.position), source.pread(edit.size_bytes, edit.position))
    target = disk.open_file(path + ".tmp", create=True)
    target.truncate(0)
    written = position = 0
    for edit in [*edits, _Edit(size, 0, b"", keep=False)]:
        while position < edit.position:
            data = source.pread(min(edit.position - position, 1 << 20), position)
            target.pwrite(data, written)
            written += len(data)
            position += len(data)
        target.pwrite(edit.data, written)
        written += len(edit.data)
        position += edit.size_bytes
    target.sync()
    disk.rename(path + ".tmp", path)
    disk.sync_dir(path.rpartition("/")[0])


def _index(disk: Disk, directory: str, base: int) -> None:
    """Rebuild the offset and time index of a segment."""
    for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        disk.open_file(segment_path(directory, base, suffix), create=True)
    segment = LogSegment(disk, directory, base, 0)
    scan(segment, LogConfig().index_interval_bytes, LeaderEpochs())
    segment.seal()


def _index_transactions(
    disk: Disk, directory: str, bases: list[int], state: ProducerStateManager, damaged: Collection[str]
) -> None:
    """Rebuild the `damaged` transaction indexes from all batches; `state` has the producers before the first."""
    for base in bases:
        aborted = []
        for header, data in _batches(disk, directory, [base]):
            ended = state.update(header, end_txn_marker(data) if header.is_control else None)
            if ended is not None and ended.aborted:
                aborted.append(
                    AbortedTxn(ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset)
                )
        path = segment_path(directory, base, TRANSACTION_INDEX_SUFFIX)
        if path in damaged:
            if disk.exists(path):
                _copy_aside(disk, path)
            disk.replace_file(path, encode_entries(aborted))


def _write_epochs(disk: Disk, path: str, bases: list[int]) -> None:
    """Rebuild the leader epoch checkpoint `path` from the batches in its directory."""
    epochs = LeaderEpochs()
    for header, _ in _batches(disk, path.rpartition("/")[0], bases):
        if header.partition_leader_epoch > (-1 if epochs.latest is None else epochs.latest):
            epochs.assign(header.partition_leader_epoch, header.base_offset)
    if disk.exists(path):
        _copy_aside(disk, path)
    disk.replace_file(path, format_leader_epochs(epochs.entries).encode())


def _batches(disk: Disk, directory: str, bases: list[int]) -> Iterator[tuple[BatchHeader, bytes]]:
    for base in bases:
        path = segment_path(directory, base, LOG_SUFFIX)
        file = disk.open_file(path)
        for piece in pieces(file, disk.file_size(path)):
            if piece.header is not None:
                yield piece.header, read_piece(file, piece)


def _copy_aside(disk: Disk, path: str) -> None:
    disk.replace_file(_damaged_path(disk, path), disk.read_file(path))


def _rename(disk: Disk, path: str) -> None:
    disk.rename(path, _damaged_path(disk, path))
    disk.sync_dir(path.rpartition("/")[0])


def _damaged_path(disk: Disk, path: str, position: int | None = None) -> str:
    """Return an unused `.damaged` name for a file, or for its bytes at `position`."""
    stem = path if position is None else f"{path}.{position}"
    number, name = 1, stem + DAMAGED_SUFFIX
    while disk.exists(name):
        number += 1
        name = f"{stem}-{number}{DAMAGED_SUFFIX}"
    return name
