"""Logs that our storage writes and Apache Kafka continues: segments of a few kilobytes, in leader epoch 0.

ours-codecs        five idempotent producers, one for each codec, with headers, null keys and null values
ours-stamped       LogAppendTime
ours-compacted     compacted, with tombstones, markers and emptied batches
ours-deleted       records deleted: whole segments, and the first part of the next segment
ours-transactions  committed, aborted and open transactions, over several segments
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from protocol.compression import Compression
from protocol.record import Record
from protocol.record_batch import EndTxnMarker, build_batch
from storage.log.log import Log, LogConfig
from storage.log.transaction_marker import build_marker
from tests.compacted import compact
from tests.logs import append_marker, open_log

# Kafka expires producers that have been idle for a day.
NOW_MS = time.time_ns() // 1_000_000 - 60_000

CONFIG = LogConfig(segment_bytes=4096, index_interval_bytes=512, file_delete_delay_ms=0)
KEPT = {"retention.ms": "-1"}
TOPICS: dict[str, dict[str, str]] = {
    "ours-codecs": KEPT,
    "ours-stamped": KEPT | {"message.timestamp.type": "LogAppendTime"},
    # Disables Kafka's own cleaner on logs that ours compacted.
    "ours-compacted": {"cleanup.policy": "compact", "min.compaction.lag.ms": str(2**63 - 1)},
    "ours-deleted": KEPT,
    "ours-transactions": KEPT,
}


def write_all(folder: Path) -> dict[str, Log]:
    """Write the logs, and close them cleanly."""
    logs = {topic: _write(folder, topic) for topic in TOPICS}
    for log in logs.values():
        log.close(NOW_MS)
    return logs


def _write(folder: Path, topic: str) -> Log:
    kind = topic.removeprefix("ours-")
    config = CONFIG
    if kind == "stamped":
        config = CONFIG._replace(timestamp_type="LogAppendTime")
    elif kind == "compacted":
        config = CONFIG._replace(cleanup_policy=frozenset({"compact"}))
    log = open_log(folder, config, topic=topic)
    writers: dict[str, Callable[[Log], None]] = {
        "codecs": _codecs,
        "stamped": _codecs,
        "compacted": _compacted,
        "deleted": _deleted,
        "transactions": _transactions,
    }
    writers[kind](log)
    log.update_high_watermark(log.log_end_offset)
    return log


def _append(log: Log, number: int, records: list[Record], *, producer_id: int, transactional: bool = False) -> None:
    known = log.producers.producers.get(producer_id)
    batch = build_batch(
        records,
        compression=list(Compression)[number % len(Compression)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=known.batches[-1].last_sequence + 1 if known and known.batches else 0,
        is_transactional=transactional,
    )
    log.append_as_leader(batch, 0, NOW_MS + number)


def _records(number: int) -> list[Record]:
    return [
        Record(
            0,
            NOW_MS + (number * 7919 + index) % 10_000,
            f"key-{number}".encode() if index else None,
            None if index == 1 else b"%d-%d " % (number, index) * (1 + number % 40),
            ((b"header", b"x"), (b"null", None)) if index == 2 else (),
        )
        for index in range(1 + number % 4)
    ]


def _codecs(log: Log) -> None:
    for number in range(120):
        _append(log, number, _records(number), producer_id=1000 + number % 5)


def _deleted(log: Log) -> None:
    _codecs(log)
    log.update_high_watermark(log.log_end_offset)
    log.advance_log_start(log.segments[1].base_offset + 5)
    log.delete_old_segments(NOW_MS)
    log.delete_files(NOW_MS)


def _compacted(log: Log) -> None:
    for number in range(100):
        key = b"key-%d" % (number * 7 % 23)
        value = None if number % 11 == 0 else b"%d " % number * 20
        records = [Record(0, NOW_MS + number, key, value), Record(0, NOW_MS + number, b"last", b"%d" % number)]
        _append(log, number, records, producer_id=1000 + number % 3)
        if number % 10 == 9:
            producer_id = 2000 + number // 10 % 2
            _append(log, number, records, producer_id=producer_id, transactional=True)
            _end(log, producer_id, committed=number % 20 == 9)
    log.update_high_watermark(log.log_end_offset)
    cleaned_to = compact(log, now_ms=NOW_MS + 1000)
    _append(log, 100, _records(3)[1:], producer_id=1000)
    log.update_high_watermark(log.log_end_offset)
    compact(log, cleaned_to=cleaned_to, now_ms=NOW_MS + 1000)
    log.delete_files(NOW_MS)
    _append(log, 101, _records(3)[1:], producer_id=1000)


def _transactions(log: Log) -> None:
    for number in range(90):
        producer_id = 3000 + number % 4
        _append(log, number, _records(number), producer_id=producer_id, transactional=True)
        if number % 9 == 8:
            _end(log, producer_id, committed=number % 27 == 8)
        if number % 30 == 29:
            for open_producer_id in range(3000, 3003):
                _end(log, open_producer_id, committed=False)


def _end(log: Log, producer_id: int, *, committed: bool) -> None:
    append_marker(log, build_marker(producer_id, 0, EndTxnMarker(committed, 0), NOW_MS), 0, NOW_MS)
