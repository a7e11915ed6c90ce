"""Compaction for tests: logs with transactions, complete cleaner passes, and the records that remain."""

from collections.abc import Iterable
from struct import pack

from protocol.record import Record
from protocol.record_batch import ControlType, build_batch, control_record_key, iter_batches, iter_records, read_header
from storage.cleaner.cleanable_range import cleanable_range
from storage.cleaner.cleaner_pass import CleanerPass
from storage.disk import Disk, OsDisk
from storage.log.log import Log, LogConfig
from tests.logs import NOW_MS, content

COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=1000, delete_retention_ms=1000)

Pair = tuple[bytes | None, bytes | None]


def put(log: Log, *pairs: Pair, now_ms: int = NOW_MS, **fields: object) -> int:
    """Append a batch, move the high watermark past it, and return its first offset."""
    batch = build_batch(pairs, timestamp_ms=now_ms, **fields)  # type: ignore[arg-type]
    offset = log.append_as_leader(batch, 0, now_ms).base_offset
    log.update_high_watermark(log.log_end_offset)
    return offset


def end_txn(log: Log, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
    """Append the marker that ends a producer's transaction; return its offset."""
    offset = log.log_end_offset
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    marker = build_batch(
        [(control_record_key(kind), pack(">hi", 0, 0))],
        base_offset=offset,
        leader_epoch=0,
        timestamp_ms=NOW_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
        is_control=True,
        is_transactional=True,
    )
    log.append_as_follower(marker, 0, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return offset


def begin(
    log: Log,
    *,
    now_ms: int = NOW_MS,
    cleaned_to: int | None = None,
    memory_bytes: int = 1 << 20,
    chunk_bytes: int = 4096,
    disk: Disk | None = None,
) -> CleanerPass:
    """Begin a cleaner pass over the cleanable part of `log`, from `cleaned_to` on."""
    log.cleaned_to = cleaned_to
    return CleanerPass(
        disk or OsDisk(),
        log._directory,
        log,
        cleanable_range(log, now_ms),
        now_ms=lambda: now_ms,
        memory_bytes=memory_bytes,
        load_factor=0.9,
        chunk_bytes=chunk_bytes,
    )


def finish(compaction: CleanerPass, budget: int = 1 << 20) -> CleanerPass:
    """Run all steps of a pass."""
    while not compaction.done:
        call = compaction.step(budget)
        if call is not None:
            call()
    return compaction


def compact(log: Log, **options: object) -> int:
    """Roll, compact, and return the offset up to which the log is clean."""
    log.roll(NOW_MS)
    compaction = finish(begin(log, **options))  # type: ignore[arg-type]
    assert compaction.cleaned_to is not None
    return compaction.cleaned_to


def records(log: Log) -> list[Record]:
    """Return the remaining data records."""
    data = content(log)
    batches = [(data[at : at + header.size_bytes], header) for at, header in iter_batches(data)]
    return [record for batch, header in batches if not header.is_control for record in iter_records(batch)]


def latest(found: Iterable[Record]) -> dict[bytes | None, bytes]:
    """Return the last value of each key, without tombstones."""
    table: dict[bytes | None, bytes] = {}
    for record in found:
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table


def offsets(log: Log) -> list[int]:
    """Return the offsets of the remaining records."""
    return [record.offset for record in records(log)]


def markers(log: Log) -> list[int]:
    """Return the offsets of the remaining markers."""
    data = content(log)
    headers = [read_header(data, at) for at, _ in iter_batches(data)]
    return [header.base_offset for header in headers if header.is_control and header.record_count]
