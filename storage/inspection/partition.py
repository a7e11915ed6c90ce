"""Checks of one log's directory: batches, indexes, leader epochs, producers and snapshots, against each other.

The log is read once, from start to end. After bytes that are not a batch, checks that need the batches before are
skipped. In a compacted log, offsets may be missing between batches, and indexes and snapshots are not compared with
batches that were removed.
"""

from collections.abc import Iterator

from protocol.errors import DecodeError, KafkaError
from protocol.plural import count_of
from protocol.record_batch import BatchHeader, EndTxnMarker, end_txn_marker, iter_records
from storage.checkpoint import CheckpointError, parse_leader_epochs, parse_partition_metadata
from storage.disk import Disk, File
from storage.former_replicas import MOVES_FILE
from storage.inspection import kinds
from storage.inspection.checks import EpochCheck, Located, OffsetCheck, TransactionCheck
from storage.inspection.decoders import decode, decoder_of
from storage.inspection.findings import UNREADABLE, Finding, readable, unreadable
from storage.inspection.indexes import Batches, check_offset_index, check_time_index, check_txn_index
from storage.inspection.layouts import BATCH, SNAPSHOT
from storage.inspection.metadata_files import check_quorum_state, check_snapshot
from storage.inspection.pieces import pieces, wrong_records
from storage.log.files import EPOCHS_FILE, METADATA_FILE
from storage.log.leader_epochs import EpochEntry
from storage.log.names import METADATA_TOPIC, parse_log_name
from storage.log.producer_snapshot import SNAPSHOT_SUFFIX, SnapshotError, decode_snapshot
from storage.log.producer_state import ProducerStateManager
from storage.log.segment import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, segment_path
from storage.log.transaction_index import TRANSACTION_INDEX_SUFFIX, TransactionIndexError, decode_entries

_RECORDS_AT = BATCH.size
QUORUM_STATE = "quorum-state"


class PartitionCheck:
    """The check of the log in `directory`; `end_offset` and `latest_epoch` are valid after `run` is exhausted."""

    def __init__(
        self, disk: Disk, directory: str, *, compacted: bool = False, clean: bool = True, log_start_offset: int = 0
    ) -> None:
        """Report missing offsets unless `compacted`, and outdated and left-over files only after a `clean` stop."""
        self._clean = clean
        self._log_start_offset = log_start_offset
        self._disk = disk
        self.directory = directory
        self._compacted = compacted
        self._decoder = decoder_of(kinds.topic_of(directory))
        self._names = disk.list_dir(directory)
        self._bases = kinds.segment_bases(disk, directory)
        self._snapshots: list[tuple[str, ProducerStateManager]] = []
        self.start_offset = self._bases[0] if self._bases else 0
        self.end_offset = self.start_offset
        self._has_unreadable = False
        self.latest_epoch = -1
        self.key = parse_log_name(directory.rpartition("/")[2]) or ("", 0)
        """Topic and partition, from the directory's name."""

    @property
    def knows_end(self) -> bool:
        """Whether `end_offset` is the log end offset: there are segments, and all of them were read."""
        return bool(self._bases) and not self._has_unreadable

    def run(self) -> Iterator[Finding]:
        """Yield the findings."""
        yield from self._small_files()
        yield from self._missing_files()
        if not self._bases:
            yield Finding(self.directory, None, "base_offset", "no segment in this directory")
            return
        epochs: tuple[EpochEntry, ...] | None = None
        path = f"{self.directory}/{EPOCHS_FILE}"
        try:
            text = self._read_text(EPOCHS_FILE)
            epochs = None if text is None else tuple(parse_leader_epochs(text, path))
        except CheckpointError as error:
            yield of_checkpoint(error)
        except OSError as error:
            yield unreadable(path, error)
        self._offsets = OffsetCheck(self.start_offset, compacted=self._compacted)
        # After an unclean stop the checkpoint may not have been written yet.
        entries = () if epochs is None and not self._clean and EPOCHS_FILE not in self._names else epochs
        self._epochs = EpochCheck(entries, path, self._log_start_offset, complete=self._clean)
        self._transactions = TransactionCheck(
            None if self._compacted else first_producers(self._disk, self.directory, self.start_offset)
        )
        yield from self._read_snapshots()
        yield from self._log()
        for number, entry in enumerate(epochs or (), 3):
            if entry.start_offset > self.end_offset:
                problem_text = f"{entry.start_offset} is above the log end offset, {self.end_offset}"
                yield Finding(path, number, "start_offset", problem_text)
        for snapshot_path, state in self._snapshots:
            problem_text = f"{state.end_offset} is above the log end offset, {self.end_offset}"
            yield Finding(snapshot_path, None, "base_offset", problem_text)

    def _log(self) -> Iterator[Finding]:
        for number, base in enumerate(self._bases):
            following = self._bases[number + 1] if number + 1 < len(self._bases) else None
            found = self._segment(base, following)
            for finding in readable(segment_path(self.directory, base, LOG_SUFFIX), found):
                if finding.field == UNREADABLE:
                    self._has_unreadable = True
                    self._offsets.next_offset = None
                    self._transactions.forget()
                yield finding
            end = self._offsets.next_offset
            if following is not None and end is not None and end != following:
                path = segment_path(self.directory, following, LOG_SUFFIX)
                before = segment_path("", base, LOG_SUFFIX)[1:]
                if end > following:
                    yield Finding(path, 0, "base_offset", f"begins at {following}, but {before} ends with {end - 1}")
                elif not self._compacted:
                    problem = f"begins at {following}, but {before} ends with {end - 1}: a segment may be missing"
                    yield Finding(path, 0, "base_offset", problem)
                self._offsets.next_offset = max(end, following)
        # Compaction may have removed the records before an empty last segment.
        self.end_offset = max(self.end_offset, self._bases[-1])
        yield from self._due_snapshots(self.end_offset + 1)

    def _segment(self, base: int, following: int | None) -> Iterator[Finding]:
        """Check a segment, then its indexes."""
        path = segment_path(self.directory, base, LOG_SUFFIX)
        file = self._disk.open_file(path)
        batches = Batches()
        self._transactions.aborted.clear()
        last: Located | None = None
        for piece in pieces(file, self._disk.file_size(path)):
            if piece.header is None:
                if last is not None:
                    yield from self._batch(file, last, None)
                    last = None
                name, problem = piece.damage or ("", "")
                at = BATCH.field(name).offset
                yield Finding(
                    path, piece.position + at, name, f"{problem} ({count_of(piece.size_bytes, 'byte')} without a batch)"
                )
                self._offsets.next_offset = None
                self._transactions.forget()
                continue
            located = Located(path, piece.position, piece.header)
            batches.add(piece.position, piece.header)
            if last is not None:
                yield from self._batch(file, last, piece.header)
            last = located
        if last is not None:
            yield from self._batch(file, last, self._first_header(following))
        yield from self._indexes(base, batches, complete=following is not None)

    def _batch(self, file: File, batch: Located, following: BatchHeader | None) -> Iterator[Finding]:
        header = batch.header
        yield from self._due_snapshots(header.base_offset + 1)
        yield from self._offsets.batch(batch, following)
        yield from self._epochs.batch(batch, following)
        data = file.pread(header.size_bytes, batch.position)
        problem, marker = wrong_records(data), None
        if problem is None and (header.is_control or self._decoder != "raw"):
            try:
                marker = self._decoded(data, header)
            except (DecodeError, KafkaError) as error:
                problem = str(error)
        if problem is not None:
            yield Finding(batch.path, batch.position + _RECORDS_AT, "records", problem)
        self._transactions.batch(header, marker)
        self.end_offset = max(self.end_offset, header.next_offset)
        self.latest_epoch = max(self.latest_epoch, header.partition_leader_epoch)

    def _decoded(self, data: bytes, header: BatchHeader) -> EndTxnMarker | None:
        """Decode the records of a batch, and return its transaction marker, if any; DecodeError or KafkaError."""
        for record in iter_records(data):
            decode(self._decoder, record, is_control=header.is_control)
        return end_txn_marker(data) if header.is_control else None

    def _indexes(self, base: int, batches: Batches, *, complete: bool) -> Iterator[Finding]:
        for suffix, check in (
            (OFFSET_INDEX_SUFFIX, check_offset_index),
            (TIME_INDEX_SUFFIX, lambda *parts: check_time_index(*parts, complete=complete)),
        ):
            path = segment_path(self.directory, base, suffix)
            try:
                yield from check(path, base, self._disk.read_file(path), batches)
            except FileNotFoundError:
                yield Finding(path, None, "base_offset", "file of this segment is missing")
            except OSError as error:
                yield unreadable(path, error)
        path = segment_path(self.directory, base, TRANSACTION_INDEX_SUFFIX)
        yield from readable(path, self._transaction_index(path, base))

    def _transaction_index(self, path: str, base: int) -> Iterator[Finding]:
        data = self._disk.read_file(path) if self._disk.exists(path) else b""
        if self._transactions.is_complete:
            yield from check_txn_index(path, data, self._transactions.aborted)
            return
        try:
            decode_entries(data, base)
        except TransactionIndexError as error:
            yield Finding(path, None, "version", error.message)

    def _first_header(self, base: int | None) -> BatchHeader | None:
        """Return the header of the first batch in the segment at `base`, if that batch is valid."""
        if base is None:
            return None
        path = segment_path(self.directory, base, LOG_SUFFIX)
        try:
            first = next(pieces(self._disk.open_file(path), self._disk.file_size(path)), None)
        except OSError:
            return None  # reported when that segment is checked
        return first.header if first else None

    # Producers

    def _read_snapshots(self) -> Iterator[Finding]:
        for name in self._names:
            if kinds.kind_of(name) is kinds.Kind.PRODUCERS and name.endswith(".snapshot"):
                path = f"{self.directory}/{name}"
                try:
                    state = decode_snapshot(self._disk.read_file(path), kinds.base_offset(name))
                    self._snapshots.append((path, state))
                except SnapshotError as error:
                    yield Finding(path, SNAPSHOT.field(error.field).offset, error.field, str(error))
                except OSError as error:
                    yield unreadable(path, error)

    def _due_snapshots(self, below: int) -> Iterator[Finding]:
        """Check the snapshots whose end offset is below `below`."""
        while self._snapshots and self._snapshots[0][1].end_offset < below:
            yield from self._transactions.snapshot(*self._snapshots.pop(0))

    # Small files

    def _small_files(self) -> Iterator[Finding]:
        for name in self._names:
            path = f"{self.directory}/{name}"
            yield from readable(path, self._small_file(name, path))

    def _missing_files(self) -> Iterator[Finding]:
        """Yield files whose segment is gone, and the absence of `quorum-state` from the metadata log."""
        if not self._clean:
            return  # the next start deletes left-over files; a new node has no `quorum-state` yet
        logs = {f"{base:020}" for base in self._bases}
        indexes = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
        gone = {name[:20] for name in self._names if kinds.kind_of(name) and name[20:] in indexes} - logs
        for name in self._names:
            if name[:20] in gone and name[20:] in (*indexes, SNAPSHOT_SUFFIX):
                yield Finding(f"{self.directory}/{name}", None, "base_offset", "no segment with this base offset")
        if self.key[0] == METADATA_TOPIC and self._bases and QUORUM_STATE not in self._names:
            problem = "file is missing: the vote of this node is unknown"
            yield Finding(f"{self.directory}/{QUORUM_STATE}", None, "leaderEpoch", problem)

    def _small_file(self, name: str, path: str) -> Iterator[Finding]:
        is_metadata = kinds.topic_of(self.directory) == METADATA_TOPIC
        if name == METADATA_FILE:
            try:
                parse_partition_metadata(self._read_text(name) or "", path)
            except CheckpointError as error:
                yield of_checkpoint(error)
        elif name == MOVES_FILE:
            moves = self._read_text(name) or ""
            if not (moves.strip().isascii() and moves.strip().isdigit()):
                yield Finding(path, 1, "moves", f"{moves!r} is not a number")
        elif is_metadata and kinds.kind_of(name) is kinds.Kind.SNAPSHOT:
            yield from check_snapshot(self._disk, path)
        elif is_metadata and kinds.kind_of(name) is kinds.Kind.QUORUM:
            yield from check_quorum_state(self._disk, path)

    def _read_text(self, name: str) -> str | None:
        if name not in self._names:
            return None
        return self._disk.read_file(f"{self.directory}/{name}").decode(errors="replace")


def first_producers(disk: Disk, directory: str, start_offset: int) -> ProducerStateManager | None:
    """Return the producer state before the first batch of a log; None if it is unknown."""
    if start_offset == 0:
        return ProducerStateManager(0)
    try:
        path = segment_path(directory, start_offset, ".snapshot")
        return decode_snapshot(disk.read_file(path), start_offset)
    except (SnapshotError, FileNotFoundError):
        return None


def of_checkpoint(error: CheckpointError) -> Finding:
    """Return a checkpoint's parse error as a finding."""
    return Finding(error.file, error.line, error.field, error.problem)
