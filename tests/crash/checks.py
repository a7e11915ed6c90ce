"""Checks of a recovered data directory against the promises and against a full scan of its content.

every required batch is there; none is changed, out of order or of unknown origin
both indexes name batches, as many as a scan would index, and searches find what a scan finds
producers, on disk and in memory, equal those of a scan, and so do the aborted transactions
leader epochs equal those of the batches
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

from protocol.record_batch import crc_matches, end_txn_marker, iter_batches, iter_records
from simulation.memory_disk import MemoryDisk
from storage.log.leader_epochs import LeaderEpochs
from storage.log.log import Log
from storage.log.producer_snapshot import SnapshotError, decode_snapshot
from storage.log.producer_state import ProducerStateEntry, ProducerStateManager
from storage.log.transaction_index import AbortedTxn
from storage.steps import finish
from tests.crash import history
from tests.crash.broken import Broken, Invariant
from tests.crash.promises import Promise, Stored, Version

# A segment's base offset, batches, offset index and time index.
Contents: TypeAlias = tuple[int, list[Stored], bytes, bytes]


def check_log(disk: MemoryDisk, name: str, log: Log | None, promise: Promise, interval: int) -> None:
    """Raise `Broken` unless the recovered log keeps its promise."""
    if log is None:
        _hold(Invariant.LOGS_OPEN, not promise.exists, name, "the log is gone")
        return
    segments = _segments(disk, log)
    found = [batch for _, batches, _, _ in segments for batch in batches]
    version = _version_of(segments, promise)
    _check_promise(name, log, found, promise)
    _hold(Invariant.BATCHES_WERE_WRITTEN, version is not None, name, f"never held {[batch[:2] for batch in found]}")
    for base, batches, offsets, times in segments:
        _check_indexes(f"{name}, segment {base}", base, batches, offsets, times, interval)
    _check_reads(name, log, found)
    written = [version.written for version in promise.versions]
    if found:  # an empty log may know the producers of deleted batches
        _check_producers(disk, name, log, found, written, promise.cleaned)
    _check_transactions(name, log, segments, written, exact=not promise.cleaned)
    _check_epochs(name, log, found, version)


def _hold(invariant: Invariant, condition: bool, name: str, problem: str) -> None:
    if not condition:
        raise Broken(invariant, f"{name}: {problem}")


def stored(data: bytes) -> list[Stored]:
    """Return the batches in the bytes of a segment."""
    return [
        Stored(header.base_offset, header.next_offset, data[at : at + header.size_bytes])
        for at, header in iter_batches(data)
    ]


def batches_of(disk: MemoryDisk, log: Log, promise: Promise) -> tuple[list[Stored], Version | None]:
    """Return the batches of a log and the version that they belong to."""
    segments = _segments(disk, log)
    return [batch for _, batches, _, _ in segments for batch in batches], _version_of(segments, promise)


def _segments(disk: MemoryDisk, log: Log) -> list[Contents]:
    found = []
    for base in [segment.base_offset for segment in log.segments]:
        path = f"{log.directory}/{base:020d}"
        batches = stored(disk.read_file(path + ".log"))
        found.append((base, batches, disk.read_file(path + ".index"), disk.read_file(path + ".timeindex")))
    return found


def _check_promise(name: str, log: Log, found: list[Stored], promise: Promise) -> None:
    end = log.log_end_offset
    last = max(found[-1].next_offset if found else 0, log.segments[-1].base_offset)
    _hold(Invariant.END_IS_THE_LAST_BATCHES, last == end, name, f"the end is {end} and not the last batch's")
    _hold(
        Invariant.SYNCED_STAYS,
        not promise.exists or end >= promise.durable_end,
        name,
        f"{end} is before the end {promise.durable_end}",
    )
    _hold(
        Invariant.OFFSETS_ARE_ORDERED,
        log.log_start_offset <= log.high_watermark <= end,
        name,
        "start, high watermark and end are out of order",
    )
    by_offset = {batch.base_offset: batch for batch in found if batch.next_offset > log.log_start_offset}
    for batch in promise.required():
        kept = by_offset.get(batch.base_offset)
        _hold(Invariant.SYNCED_STAYS, kept is not None, name, f"the batch at {batch.base_offset} is lost")
        _hold(Invariant.SYNCED_STAYS, kept == batch, name, f"the batch at {batch.base_offset} is another")
    in_order = all(one.next_offset <= following.base_offset for one, following in pairwise(found))
    _hold(Invariant.OFFSETS_ARE_ORDERED, in_order, name, f"out of order: {[batch[:2] for batch in found]}")
    if promise.cleaned and promise.exists:
        lost = [(record.key, record.offset) for record in history.lost_keys(found, promise)]
        _hold(Invariant.COMPACTION_KEEPS_KEYS, not lost, name, f"compacted up to {promise.cleaned}, it lost {lost}")


def _version_of(segments: list[Contents], promise: Promise) -> Version | None:
    """Return the version that the batches belong to, or None.

    Gaps are allowed only where a segment begins: the end of the segment before, or a segment due for deletion, may not
    have survived. Apache Kafka continues behind such a gap too.
    """
    for version, length in zip(reversed(promise.versions), reversed(promise.lengths), strict=True):
        if all(_is_part(batches, version, length, promise.cleaned) for _, batches, _, _ in segments):
            return version
    return None


def _is_part(batches: list[Stored], version: Version, length: int, cleaned: int) -> bool:
    compacted = [batch for batch in batches if batch.base_offset < cleaned]
    if compacted and not history.is_remnant(compacted, version, length):
        return False
    batches = batches[len(compacted) :]
    if not batches:
        return True
    first = version.numbers.get(batches[0].base_offset, length)
    return first + len(batches) <= length and version.batches[first : first + len(batches)] == batches


def _check_indexes(name: str, base: int, batches: list[Stored], offsets: bytes, times: bytes, interval: int) -> None:
    """Compare with the entries of appending the batches one by one.

    The time index may hold more: it is completed whenever a log is closed, and continues after that.
    """
    position = indexed = 0
    largest, largest_at = -1, base
    expected, wanted, allowed = [], [], set()
    for batch in batches:
        timestamp = batch.header.max_timestamp
        if timestamp > largest:
            largest, largest_at = timestamp, batch.next_offset - 1
        allowed.add((largest, largest_at - base))
        if position - indexed > interval:
            indexed = position
            expected.append((batch.next_offset - 1 - base, position))
            wanted.append((largest, largest_at - base))
        position += len(batch.data)
    _hold(
        Invariant.OFFSET_INDEX,
        _entries(offsets, 4) == expected,
        name,
        f"the index says {_entries(offsets, 4)} and not {expected}",
    )
    found = _entries(times, 8)
    _hold(Invariant.TIME_INDEX, found == sorted(set(found)), name, f"the time index is not monotone: {found}")
    _hold(Invariant.TIME_INDEX, allowed.issuperset(found), name, f"the time index says {found}, of {sorted(allowed)}")
    missing = {entry for entry in wanted if entry[0] >= 0} - set(found)
    _hold(Invariant.TIME_INDEX, not missing, name, f"the time index says {found}, without {sorted(missing)}")


def _entries(data: bytes, first_size: int) -> list[tuple[int, int]]:
    step = first_size + 4
    return [
        (
            int.from_bytes(data[at : at + first_size], "big", signed=True),
            int.from_bytes(data[at + first_size : at + step], "big", signed=True),
        )
        for at in range(0, len(data), step)
    ]


def _check_reads(name: str, log: Log, found: list[Stored]) -> None:
    """Read as consumers do, from the log start and from a random offset; search by timestamp."""
    visible = [batch for batch in found if batch.next_offset > log.log_start_offset]
    if not visible:
        return
    for first in (0, len(visible) // 2, len(visible) - 1):
        offset = max(visible[first].base_offset, log.log_start_offset)
        got = log.read(offset, 3000, limit_offset=log.log_end_offset)
        data = b"".join(part.read(0, part.size_bytes) for part in got.slices)
        expected = b"".join(batch.data for batch in visible[first:])
        _hold(
            Invariant.READS,
            bool(data) and expected.startswith(data),
            name,
            f"a read from {offset} gives something else",
        )
    middle = visible[len(visible) // 2]
    timestamp = middle.header.max_timestamp
    records = (record for batch in visible for record in iter_records(batch.data))
    brute = next((r.offset for r in records if r.timestamp >= timestamp and r.offset >= log.log_start_offset), None)
    looked_up = finish(log.offset_for_timestamp(timestamp))
    _hold(
        Invariant.TIMESTAMP_LOOKUPS,
        (looked_up and looked_up.offset) == brute,
        name,
        f"timestamp {timestamp} is at {brute}, not {looked_up}",
    )


def _check_producers(
    disk: MemoryDisk, name: str, log: Log, found: list[Stored], written: list[list[Stored]], cleaned: int
) -> None:
    """Compare with scans of the present batches, of those plus all deleted before them, and of all ever written.

    A compacted log continues behind the end of a segment that the power cut lost, a sequence that was never written.
    So it is also compared with the batches written up to `cleaned` plus the present ones behind that.

    Producers whose batches are deleted may be known from snapshots; Kafka's snapshots hold the last batch of each.
    Earlier batches are compared only without compaction, which leaves some of them.
    """
    first, exact = log.segments[0].base_offset, not cleaned
    deleted = [[batch for batch in batches if batch.next_offset <= first] for batches in written]
    scans = [found, *(before + found for before in deleted), *written]
    if cleaned:
        behind = [batch for batch in found if batch.base_offset >= cleaned]
        scans += [[batch for batch in batches if batch.next_offset <= cleaned] + behind for batches in written]
    states = [_scan(batches, log.log_end_offset).producers for batches in scans]
    for producer in {*log.producers.producers, *states[0]}:
        known = log.producers.producers.get(producer)
        possible = [state.get(producer) for state in states]
        right = any(
            _last(known) == _last(entry) and (not exact or _recent(known, entry, possible[0])) for entry in possible
        )
        right = right or _equals_former_scan(known, producer, written, log.log_end_offset)
        _hold(
            Invariant.PRODUCER_STATE,
            right,
            name,
            f"producer {producer} is {_text(known)}, by a scan {_text(possible[0])}",
        )
    for file in disk.list_dir(log.directory):
        if not file.endswith(".snapshot"):
            continue
        offset = int(file[:20])
        _hold(Invariant.PRODUCER_SNAPSHOTS, offset <= log.log_end_offset, name, f"snapshot {offset} is past the end")
        try:
            snapshot = decode_snapshot(disk.read_file(f"{log.directory}/{file}"), offset).producers
        except SnapshotError:
            continue  # its checksum makes a reader refuse it
        states = [_scan(batches, offset).producers for batches in scans]
        for producer in {*snapshot, *states[0]}:
            known = snapshot.get(producer)
            possible = [state.get(producer) for state in states]
            right = any(_last(known) == _last(entry) for entry in possible) or _equals_former_scan(
                known, producer, written, offset
            )
            # Rebuilt from compacted segments, it lacks the records that later ones replaced.
            right = right or not exact
            _hold(
                Invariant.PRODUCER_SNAPSHOTS,
                right,
                name,
                f"snapshot {offset}: producer {producer} is {_text(known)}, not {_text(possible[0])}",
            )


def _check_transactions(
    name: str, log: Log, segments: list[Contents], written: list[list[Stored]], *, exact: bool
) -> None:
    """Compare the transaction indexes, and the aborted transactions returned for each batch, with scans."""
    found = [batch for _, batches, _, _ in segments for batch in batches]
    scans = [found, *written]
    expected = [history.aborted(batches, log.log_end_offset) for batches in scans]
    known = []
    for segment, (_, batches, _, _) in zip(log.segments, segments, strict=True):
        entries = segment.transaction_index.entries
        here = {batch.base_offset for batch in batches}
        stray = [entry for entry in entries if not any(_covers_scan(entry, one) for scan in expected for one in scan)]
        _hold(
            Invariant.TRANSACTION_INDEX,
            not exact or not stray,
            name,
            f"segment {segment.base_offset} lists aborted {stray}: {expected[0]}",
        )
        missing = {entry.last_offset for entry in expected[0]} & here - {entry.last_offset for entry in entries}
        _hold(
            Invariant.TRANSACTION_INDEX,
            not missing,
            name,
            f"segment {segment.base_offset} does not list the transaction aborted at {missing}",
        )
        known += entries
    fates = [history.fates(batches) for batches in scans]
    for batch in found:
        header = batch.header
        if header.is_transactional and not header.is_control and header.record_count:
            reported = any(
                entry.producer_id == header.producer_id and entry.first_offset <= batch.base_offset < entry.last_offset
                for entry in known
            )
            right = any(reported == (fate.get(batch.base_offset) is False) for fate in fates)
            _hold(
                Invariant.TRANSACTION_INDEX,
                right,
                name,
                f"the batch at {batch.base_offset} is listed as {'aborted' if reported else 'committed'}",
            )


def _covers_scan(entry: AbortedTxn, scanned: AbortedTxn) -> bool:
    """Return whether an entry covers at least what a scan finds; it may cover batches deleted since."""
    return (
        (entry.producer_id, entry.last_offset) == (scanned.producer_id, scanned.last_offset)
        and entry.first_offset <= scanned.first_offset
        and entry.last_stable_offset <= scanned.last_stable_offset
    )


def _scan(batches: list[Stored], end: int) -> ProducerStateManager:
    state = ProducerStateManager()
    for batch in batches:
        if batch.next_offset > end:
            break
        header = batch.header
        if header.producer_id >= 0:
            state.update(header, end_txn_marker(batch.data) if header.is_control else None)
    return state


def _equals_former_scan(known: ProducerStateEntry | None, producer: int, written: list[list[Stored]], end: int) -> bool:
    """Return whether a producer equals a scan from some former log start, as when a copied log was scanned."""
    return any(
        _last(known) == _last(_scan(batches[start:], end).producers.get(producer))
        for batches in written
        for start in range(len(batches))
    )


def _last(entry: ProducerStateEntry | None) -> object:
    """Return what a snapshot holds of a producer."""
    if entry is None:
        return None
    return entry.epoch, entry.last_timestamp, entry.txn_first_offset, entry.coordinator_epoch, _places(entry)[-1:]


def _recent(
    known: ProducerStateEntry | None, entry: ProducerStateEntry | None, there: ProducerStateEntry | None
) -> bool:
    """Return whether the cached batches are `entry`'s last ones, at least those that are still in the log."""
    if known is None or entry is None:
        return known is entry
    places = _places(known)
    at_least = len(there.batches) if there is not None else 0
    return len(places) >= at_least and _places(entry)[len(entry.batches) - len(places) :] == places


def _places(entry: ProducerStateEntry) -> list[tuple[int, ...]]:
    """Return a producer's last batches, without their timestamps."""
    return [batch[:3] for batch in entry.batches]


def _text(entry: ProducerStateEntry | None) -> str:
    if entry is None:
        return "unknown"
    opened = "" if entry.txn_first_offset < 0 else f", with a transaction open from {entry.txn_first_offset} on"
    return (
        f"of epoch {entry.epoch} and coordinator epoch {entry.coordinator_epoch} at {entry.last_timestamp} ms{opened},"
        f" with {_places(entry)}"
    )


def _check_epochs(name: str, log: Log, found: list[Stored], version: Version | None) -> None:
    expected = LeaderEpochs()
    for batch in found:
        header = batch.header
        _hold(
            Invariant.BATCHES_ARE_WHOLE,
            crc_matches(batch.data, header),
            name,
            f"the batch at {batch.base_offset} is damaged",
        )
        if expected.latest is None or header.partition_leader_epoch > expected.latest:
            expected.assign(header.partition_leader_epoch, batch.base_offset)
        _hold(
            Invariant.LEADER_EPOCHS,
            batch.next_offset <= log.log_start_offset
            or log.leader_epochs.epoch_for_offset(max(batch.base_offset, log.log_start_offset))
            == header.partition_leader_epoch,
            name,
            f"the batch at {batch.base_offset} is of epoch {header.partition_leader_epoch}: "
            f"{log.leader_epochs.entries}",
        )
    expected.truncate_from_start(log.log_start_offset)
    once = {batch.header.partition_leader_epoch for batch in (version.written if version else [])}
    known = {entry.epoch for entry in expected.entries} | once
    end = log.log_end_offset
    extra = [entry for entry in log.leader_epochs.entries if entry.epoch not in known or entry.start_offset >= end]
    _hold(Invariant.LEADER_EPOCHS, not extra, name, f"no batch is of epochs {extra}")
