"""Recovery of a log's producer state, when the log is loaded or truncated: from a snapshot and the batches after it.

The newest valid snapshot is used, unless an earlier one is needed for
- the transaction indexes of scanned segments, which are rebuilt from their first batch on;
- transactions completed above the high watermark: they are still unstable, and no snapshot has them.

After an unclean shutdown, snapshots above the recovery point are not used: a power cut may have restored one of
truncated batches. Those of scanned segments are rebuilt, as in Apache Kafka. Snapshots before the first segment are
never used: since later batches are deleted, their sequences are outdated. A producer with an outdated sequence would be
rejected, an unknown producer is accepted.

A snapshot has only each producer's last batch, so up to 4 MiB of the log before it is read to fill the window of five
batches (Apache Kafka's window has one after a restart).
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from protocol.errors import KafkaError
from protocol.record_batch import BatchHeader, end_txn_marker
from storage.log.files import LogFiles
from storage.log.producer_snapshot import SNAPSHOT_SUFFIX, SnapshotError
from storage.log.producer_state import ProducerStateManager
from storage.log.segment import LogSegment

_REFILL_BYTES = 4 * 1024 * 1024


def recover_producers(
    files: LogFiles,
    segments: Sequence[LogSegment],
    end_offset: int,
    *,
    high_watermark: int,
    snapshots: Sequence[int] | None = None,
    trusted_to: int | None = None,
    scanned: Collection[LogSegment] = (),
    clean: bool = False,
) -> ProducerStateManager:
    """Return the producer state as of `end_offset`; raise OSError.

    Delete snapshots before the log, above `trusted_to` or the end, damaged ones, and those not at a segment's base
    offset, except the newest. Rebuild the transaction indexes and missing snapshots of the `scanned` segments.

    `snapshots` has the offsets of the snapshots, ascending; None: list them. `clean`: the log was closed cleanly, so if
    it has no snapshot it has no producers.
    """
    first = segments[0].base_offset
    trusted_to = end_offset if trusted_to is None else min(max(trusted_to, first), end_offset)
    scanned_from = min((segment.base_offset for segment in scanned), default=end_offset)
    bases = {segment.base_offset for segment in segments}
    state: ProducerStateManager | None = None
    newest: ProducerStateManager | None = None
    damaged = False
    for offset in reversed(files.snapshot_offsets() if snapshots is None else snapshots):
        if not first <= offset <= trusted_to or (newest is not None and offset not in bases):
            files.remove_snapshots_at([offset])
        elif state is None:
            try:
                found = files.read_producers(offset)
            except SnapshotError:
                damaged = True
                files.damaged.append(f"{offset:020}{SNAPSHOT_SUFFIX}")
                files.remove_snapshots_at([offset])
                continue
            if offset <= scanned_from:
                newest = newest or found
                state = found if offset <= high_watermark or not _has_markers(found) else None
    if state is None and first:
        state = newest  # the batches before the first segment are deleted
    if state is None:
        state = ProducerStateManager(end_offset if clean and not (newest or damaged or scanned) else first)
    elif state.producers:
        _close_compacted(state, segments)
        state.refill(_until_damage(_headers_before(segments, state.end_offset)))
    _replay(state, segments, scanned, files)
    state.end_offset = end_offset
    return state


def _has_markers(state: ProducerStateManager) -> bool:
    return any(entry.coordinator_epoch >= 0 for entry in state.producers.values())


def _close_compacted(state: ProducerStateManager, segments: Sequence[LogSegment]) -> None:
    """Close the open transactions of an old snapshot that have no batch left: their markers may be gone too.

    Compaction removes no batch of an open transaction, and a marker only after all batches of its transaction.
    """
    for first_offset, producer_id in state.open_transactions:
        if first_offset < segments[0].base_offset:
            continue  # its batches may be gone because the log start moved
        headers = _headers_between(segments, first_offset, state.end_offset)
        try:
            is_left = any(header.producer_id == producer_id for header in headers)
        except KafkaError:
            continue  # one of its batches may be after the damage
        if not is_left:
            state.close_transaction(first_offset)


def _until_damage(headers: Iterator[BatchHeader]) -> Iterator[BatchHeader]:
    """Yield `headers` up to the first damaged batch: the log must open to serve the others."""
    with suppress(KafkaError):
        yield from headers


def _headers_between(segments: Sequence[LogSegment], start_offset: int, end_offset: int) -> Iterator[BatchHeader]:
    for number, segment in enumerate(segments):
        if number + 1 < len(segments) and segments[number + 1].base_offset <= start_offset:
            continue
        for _, header in segment.headers(segment.position_of(start_offset)):
            if header.base_offset >= end_offset:
                return
            yield header


def _replay(
    state: ProducerStateManager, segments: Sequence[LogSegment], scanned: Collection[LogSegment], files: LogFiles
) -> None:
    """Apply the batches after the state's end; rebuild transaction indexes and snapshots of the scanned segments."""
    start = state.end_offset
    for number, segment in enumerate(segments):
        if number + 1 < len(segments) and segments[number + 1].base_offset <= start:
            continue
        rebuild = segment in scanned
        if rebuild:
            segment.transaction_index.rebuild()
            if segment.base_offset > start and not files.has_snapshot(segment.base_offset):
                files.save_producers(state, segment.base_offset)
        for position, header in segment.headers(segment.position_of(start)):
            marker = end_txn_marker(segment.batch_at(position)) if header.is_control else None
            ended = state.update(header, marker)
            if rebuild and ended is not None:
                segment.index_completed(ended)
        if rebuild:
            segment.transaction_index.save()


def _headers_before(segments: Sequence[LogSegment], end_offset: int) -> Iterator[BatchHeader]:
    """Yield the batches of the last 4 MiB before `end_offset`."""
    room = _REFILL_BYTES
    starts: list[tuple[LogSegment, int]] = []
    for segment in reversed(segments):
        if segment.base_offset >= end_offset or room <= 0:
            continue
        end = segment.position_of(end_offset)
        start = segment.indexed_before(end - room)[0] if end > room else 0
        starts.append((segment, start))
        room -= end - start
    for segment, start in reversed(starts):
        for _, header in segment.headers(start):
            if header.base_offset >= end_offset:
                return
            yield header
