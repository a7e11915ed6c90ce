"""Raft responses: records and snapshot bytes are read from the metadata log when the response is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.metadata.metadata_log import MetadataLog, Retention
from broker.metadata.raft_responses import fill_in
from controller.batches import decode_entries
from controller.raft.log import Entry, SnapshotId
from controller.raft.messages import LogRead, Response, SnapshotRead
from controller.snapshot import encode_snapshot
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse
from protocol.messages.fetch_snapshot import FetchSnapshotResponse
from protocol.messages.vote import VoteResponse
from protocol.records.metadata import NoOpRecord
from storage.disk import OsDisk
from storage.log.config import LogConfig
from storage.log_directory import LogDirectory
from tests.typed import present

SNAPSHOT = SnapshotId(3, 1)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MetadataLog]:
    """Return a log of three entries, and a snapshot of them."""
    config = LogConfig(cleanup_policy=frozenset(), file_delete_delay_ms=0)
    log = MetadataLog.open(OsDisk(), LogDirectory(OsDisk(), str(tmp_path)), None, config=config, now_ms=1)
    flush = log.append([Entry(offset, 1, (NoOpRecord(),)) for offset in range(3)], 1000)
    present(flush).sync()
    present(flush).finish()
    log.committed(3)
    log.write_snapshot(SNAPSHOT, snapshot_bytes())
    log.add_snapshot(SNAPSHOT, Retention(-1, -1), 1000)
    yield log
    log.close(1)


def snapshot_bytes() -> bytes:
    return b"".join(encode_snapshot([], epoch=1, now_ms=1000, last_timestamp_ms=1000, voters=None))


def read(log: MetadataLog, offset: int, max_bytes: int = 1 << 20) -> FetchResponse.Topic.Partition:
    partition = FetchResponse.Topic.Partition(
        partition_index=0, high_watermark=3, aborted_transactions=[], records=None
    )
    response = FetchResponse(responses=[FetchResponse.Topic(partitions=[partition])])
    fill_in(log, Response(None, response, LogRead(offset, max_bytes)))
    return partition


def read_part(
    log: MetadataLog, position: int, max_bytes: int = 1 << 20, snapshot: SnapshotId = SNAPSHOT
) -> FetchSnapshotResponse.Topic.Partition:
    partition = FetchSnapshotResponse.Topic.Partition(
        index=0,
        snapshot_id=FetchSnapshotResponse.Topic.Partition.SnapshotId(end_offset=3, epoch=1),
        size=0,
        position=position,
        unaligned_records=b"",
    )
    response = FetchSnapshotResponse(topics=[FetchSnapshotResponse.Topic(name="m", partitions=[partition])])
    fill_in(log, Response(None, response, SnapshotRead(snapshot, position, max_bytes)))
    return partition


def test_a_fetch_is_answered_with_the_entries_from_its_offset_on(log: MetadataLog) -> None:
    assert [entry.base_offset for entry in decode_entries(read(log, 1).records)] == [1, 2]  # type: ignore[arg-type]  # always this type here
    assert len(list(decode_entries(read(log, 0, max_bytes=1).records))) == 1  # type: ignore[arg-type]  # always this type here


def test_missing_offset_is_partition_error(log: MetadataLog) -> None:
    assert read(log, 9).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_snapshot_is_sent_in_parts(log: MetadataLog) -> None:
    whole = snapshot_bytes()
    first, second = read_part(log, 0, 10), read_part(log, 10)
    assert bytes(first.unaligned_records) + bytes(second.unaligned_records) == whole  # type: ignore[arg-type]  # always this type here
    assert first.size == second.size == len(whole)


def test_position_beyond_snapshot_end_is_error_with_that_position(log: MetadataLog) -> None:
    partition = read_part(log, 10_000)
    assert (partition.error_code, partition.position) == (ErrorCode.POSITION_OUT_OF_RANGE, 10_000)


def test_a_snapshot_that_is_not_there_is_an_error(log: MetadataLog) -> None:
    assert read_part(log, 0, snapshot=SnapshotId(2, 1)).error_code == ErrorCode.SNAPSHOT_NOT_FOUND


def test_other_responses_contain_no_log_data(log: MetadataLog) -> None:
    response = VoteResponse(topics=[])
    fill_in(log, Response(None, response, None))
    assert response == VoteResponse(topics=[])
