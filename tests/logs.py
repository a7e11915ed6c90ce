"""Logs for tests: opened in a folder, filled with batches, read back in full."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from protocol.primitives import ZERO_UUID
from protocol.record import Record
from protocol.record_batch import BatchHeader, build_batch, end_txn_marker, iter_batches
from storage.disk import Disk, OsDisk
from storage.log import loader
from storage.log.log import Log, LogAppendInfo, LogConfig
from storage.log.log_checkpoint import LogCheckpoint
from storage.log.producer_state import AppendOrigin
from storage.log_directory import LogDirectory

NOW_MS = 1_700_000_000_000
DEFAULT = LogConfig()
TOPIC_ID = bytes(range(16))


def open_log(
    folder: Path,
    config: LogConfig = DEFAULT,
    *,
    disk: Disk | None = None,
    topic: str = "topic",
    topic_id: bytes = ZERO_UUID,
    **checkpointed: Any,
) -> Log:
    """Return the log `topic`-0 in `folder`, opened without the directory lock from a `LogCheckpoint` of the rest."""
    disk, checkpoint = disk or OsDisk(), LogCheckpoint(**checkpointed)
    home = LogDirectory(disk, str(folder))
    return loader.open_log(disk, home, topic, 0, config, now_ms=NOW_MS, topic_id=topic_id, checkpoint=checkpoint)


def batch(count: int = 1, *, size: int = 10, timestamp: int = NOW_MS, **fields: Any) -> bytearray:
    """Return a batch of `count` records with values of `size` bytes."""
    return build_batch([(b"key", b"v" * size)] * count, timestamp_ms=timestamp, **fields)


def stamped(timestamps: Iterable[int]) -> bytearray:
    """Return a batch with a record for each timestamp."""
    return build_batch([Record(0, timestamp, b"k", b"v") for timestamp in timestamps])


def fill(log: Log, batches: int, *, count: int = 1, size: int = 10, epoch: int = 0) -> None:
    """Append equal batches, and move the high watermark past them."""
    for _ in range(batches):
        log.append_as_leader(batch(count, size=size), epoch, NOW_MS)
    log.update_high_watermark(log.log_end_offset)


def append_marker(
    log: Log, records: bytearray, leader_epoch: int, now_ms: int, *, transaction_version: int = 0
) -> LogAppendInfo:
    """Append a marker as the leader."""
    origin = AppendOrigin(False, end_txn_marker(records), transaction_version)
    return log.append_as_leader(records, leader_epoch, now_ms, origin=origin)


def bases(log: Log) -> tuple[int, ...]:
    """Return the base offset of each segment, oldest first."""
    return tuple(segment.base_offset for segment in log.segments)


def headers(log: Log) -> list[BatchHeader]:
    """Return the headers of all batches."""
    return [header for _, header in iter_batches(content(log))]


def content(log: Log, start: int | None = None, max_bytes: int = 1 << 20) -> bytes:
    """Return the bytes from `start`, or the log start, to the log end, read as a consumer reads them."""
    offset = log.log_start_offset if start is None else start
    data = b""
    while True:
        found = log.read(offset, max_bytes, limit_offset=log.log_end_offset)
        if not found.slices:
            return data
        [part] = found.slices
        step = part.read(0, part.size_bytes)
        data += step
        offset = [header for _, header in iter_batches(step)][-1].next_offset
