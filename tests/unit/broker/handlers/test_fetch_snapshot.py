"""FetchSnapshot, sent by a lagging node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controller.raft.log import SnapshotId
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.fetch_snapshot import FetchSnapshotRequest
from tests.unit.broker.controllers import METADATA, cluster_id, query
from tests.unit.broker.whole_cluster import WholeCluster

Partition = FetchSnapshotRequest.Topic.Partition


@pytest.fixture
def three() -> Iterator[WholeCluster]:
    cluster = WholeCluster(
        metadata_log_max_record_bytes_between_snapshots="1",
        # The virtual clock makes new snapshots look very old: disable retention.
        metadata_max_retention_ms="-1",
        metadata_max_retention_bytes="-1",
    )
    cluster.start()
    yield cluster
    cluster.close()


def fetch(
    three: WholeCluster, snapshot: SnapshotId, *, position: int = 0, name: str = METADATA, **fields: int | str
) -> Any:
    leader = three.raft(three.active)
    partition = Partition(
        partition=0,
        current_leader_epoch=leader.epoch,
        snapshot_id=Partition.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        position=position,
    )
    topics = [FetchSnapshotRequest.Topic(name=name, partitions=[partition])]
    answer = query(
        three,
        ApiKey.FETCH_SNAPSHOT,
        1,
        **{"cluster_id": cluster_id(three), "replica_id": 9, "topics": topics, **fields},  # type: ignore[arg-type]  # keywords of several types
    )
    return ErrorCode(answer.error_code) if answer.error_code else answer.topics[0].partitions[0]


def newest(three: WholeCluster) -> SnapshotId:
    result: SnapshotId = three.until(lambda: three.raft(three.active)._log.newest_snapshot)
    return result


def test_snapshot_is_returned_in_parts(three: WholeCluster) -> None:
    snapshot = newest(three)
    whole = fetch(three, snapshot)
    assert whole.size == len(whole.unaligned_records) > 100
    first, rest = fetch(three, snapshot, max_bytes=100), fetch(three, snapshot, position=100)
    assert (first.position, rest.position) == (0, 100)
    assert bytes(first.unaligned_records) + bytes(rest.unaligned_records) == bytes(whole.unaligned_records)


def test_missing_snapshot_is_not_found(three: WholeCluster) -> None:
    snapshot = newest(three)._replace(end_offset=1 << 40)
    assert fetch(three, snapshot).error_code == ErrorCode.SNAPSHOT_NOT_FOUND


def test_position_past_the_snapshot_end_is_out_of_range(three: WholeCluster) -> None:
    assert fetch(three, newest(three), position=1 << 40).error_code == ErrorCode.POSITION_OUT_OF_RANGE


def test_fetch_snapshot_with_another_cluster_id_is_refused(three: WholeCluster) -> None:
    assert fetch(three, newest(three), cluster_id="other") is ErrorCode.INCONSISTENT_CLUSTER_ID
