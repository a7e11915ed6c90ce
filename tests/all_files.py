"""A data directory with a file of each kind that a broker writes, for tests of its readers."""

from pathlib import Path
from random import Random

from broker.metadata.metadata_log import MetadataLog
from controller.raft.log import Entry, SnapshotId
from controller.raft.messages import ElectionState
from controller.raft.voters import Voter, VoterSet
from controller.snapshot import encode_snapshot
from protocol.compression import Compression
from protocol.record_batch import ControlType, build_batch, control_record_key
from protocol.records.metadata import TopicRecord
from protocol.records.offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from protocol.records.transactions import TransactionLogKey, TransactionLogValue
from storage.disk import OsDisk
from storage.log.config import LogConfig
from storage.log.log import Log
from storage.log_manager import LogManager

NOW_MS = 1_800_000_000_000
# Segments of about six batches, with an index entry for nearly each.
CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=100, retention_ms=-1)
CLUSTER_ID = "WV5yoIVIQ7q2wIB0pOwZQg"
VOTERS = VoterSet([Voter(1, b"directory-number")])


def opened(folder: Path) -> LogManager:
    """Return the `LogManager` of a data directory, opened as a broker opens it."""
    manager = LogManager(OsDisk(), [str(folder)], CONFIG, now_ms=lambda: NOW_MS, random=Random(1))
    manager.open()
    manager.format(CLUSTER_ID, 1)
    for _ in manager.load():
        pass
    return manager


def write_all_files(folder: Path, *, topics: int = 1) -> None:
    """Fill a data directory and close it; `topics` topics `t0`, `t1` ... have the same batches."""
    manager = opened(folder)
    for number in range(topics):
        log = manager.create(f"t{number}", bytes([number + 1] * 16), 0, CONFIG)
        write_log(log)
        manager.delete_records(log, 2)
    offsets = manager.create("__consumer_offsets", bytes([201] * 16), 0, CONFIG)
    offsets.append_as_leader(build_batch(_offsets(), timestamp_ms=NOW_MS), 0, NOW_MS)
    transactions = manager.create("__transaction_state", bytes([202] * 16), 0, CONFIG)
    transactions.append_as_leader(build_batch(_transactions(), timestamp_ms=NOW_MS), 0, NOW_MS)
    write_metadata(manager)
    manager.save_log_starts()
    manager.close(broker_epoch=7)
    # The cleaner writes it, and has not run here.
    (folder / "cleaner-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 0\n")


def write_log(log: Log) -> None:
    """Append batches of two epochs: plain, idempotent with two codecs, and committed and aborted transactions."""
    batches: list[bytearray] = []
    for number in range(4):
        at = NOW_MS + number * 10
        values = [(b"k%d" % number, b"v" * 30), (b"k", None), (None, b"w")]
        batches.append(build_batch(values, timestamp_ms=at))
        batches.append(
            build_batch(values[:2], timestamp_ms=at + 1, compression=Compression.LZ4, **_producer(7, number * 2))  # type: ignore[arg-type]  # keywords of several types
        )
        batches.append(build_batch(values, timestamp_ms=at + 2, **_producer(8, number * 3), is_transactional=True))  # type: ignore[arg-type]  # keywords of several types
        batches.append(marker(8, ControlType.ABORT if number % 2 else ControlType.COMMIT, at + 3))
    for number, batch in enumerate(batches):
        append(log, batch, 3 if number >= 6 else 0)
    log.update_high_watermark(log.log_end_offset)


def append(log: Log, batch: bytearray, epoch: int) -> None:
    """Append a batch with leader epoch `epoch`."""
    from protocol.record_batch import assign

    assign(batch, log.log_end_offset, epoch)
    log.append_as_follower(batch, epoch, NOW_MS)


def marker(producer_id: int, kind: ControlType, timestamp_ms: int) -> bytearray:
    """Return the batch that ends a transaction."""
    return build_batch(
        [(control_record_key(kind), bytes([0, 0, 0, 0, 0, 5]))],
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=0,
        is_control=True,
        is_transactional=True,
    )


def write_metadata(manager: LogManager) -> None:
    """Write a metadata log with a topic in it, a snapshot and a vote."""
    config = LogConfig(cleanup_policy=frozenset(), file_delete_delay_ms=0)
    log = MetadataLog.open(OsDisk(), manager.directories[0], VOTERS, config=config, now_ms=NOW_MS)
    for number, value in enumerate((1, 2, 201, 202)):
        record = TopicRecord(name=f"topic-{number}", topic_id=bytes([value] * 16))
        flush = log.append([Entry(number, 1, (record,))], NOW_MS)
        assert flush is not None
        flush.sync()
        flush.finish()
    data = encode_snapshot([], epoch=1, now_ms=NOW_MS, last_timestamp_ms=NOW_MS, voters=VOTERS)
    log.write_snapshot(SnapshotId(2, 1), b"".join(data))
    log.write_quorum_state(ElectionState(epoch=1, voted_id=1, voted_directory_id=b"directory-number"), VOTERS, 1)
    log.close(NOW_MS)


def _producer(producer_id: int, base_sequence: int) -> dict[str, int]:
    return {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": base_sequence}


def _offsets() -> list[tuple[bytes, bytes]]:
    commit = OffsetCommitValue(offset=5, metadata="", commit_timestamp=NOW_MS)
    group = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", leader=None, members=[])
    return [
        (encode_key(OffsetCommitKey(group="g", topic="t0", partition=0)), encode_value(commit, 3)),
        (encode_key(GroupMetadataKey(group="g")), encode_value(group, 3)),
    ]


def _transactions() -> list[tuple[bytes, bytes]]:
    value = TransactionLogValue(
        producer_id=8,
        producer_epoch=0,
        transaction_timeout_ms=60_000,
        transaction_status=4,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=NOW_MS,
        transaction_start_timestamp_ms=NOW_MS,
    )
    return [(b"\0\0" + TransactionLogKey(transactional_id="mover").encode(0), b"\0\1" + value.encode(1))]
