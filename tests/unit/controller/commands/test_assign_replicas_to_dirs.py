"""AssignReplicasToDirs: a broker reports the log directory of each replica."""

from __future__ import annotations

from functools import partial

import pytest

from controller.commands.assign_replicas_to_dirs import assign_replicas_to_dirs
from controller.image import NO_LEADER, DirectoryId
from protocol.errors import ErrorCode
from protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from tests.unit.controller.cluster import Cluster, directory
from tests.unit.controller.partitions import change, topic_of

Directory = AssignReplicasToDirsRequest.Directory


@pytest.fixture
def cluster() -> Cluster:
    """Topic t on brokers 1 and 2, led by 1, which has two log directories; topic u on 2 and 3."""
    cluster = Cluster(brokers=0)
    for broker in (1, 2, 3):
        cluster.add_broker(broker, directories=2)
    cluster.create("t", assignments={0: [1, 2]})
    cluster.create("u", assignments={0: [2, 3]})
    change(cluster, directories=[directory(1, 0), directory(2, 0)])
    return cluster


def query(
    cluster: Cluster, homes: dict[bytes, list[tuple[bytes, int]]], *, broker: int = 1, late: int = 0
) -> AssignReplicasToDirsResponse:
    """Assign partitions, by topic id and index, to directories."""
    known = cluster.image.brokers.get(broker)
    request = AssignReplicasToDirsRequest(
        broker_id=broker,
        broker_epoch=(known.epoch if known else 0) - late,
        directories=[
            Directory(
                id=home,
                topics=[
                    Directory.Topic(topic_id=topic, partitions=[Directory.Topic.Partition(partition_index=index)])
                    for topic, index in replicas
                ],
            )
            for home, replicas in homes.items()
        ],
    )
    response: AssignReplicasToDirsResponse = cluster.apply(partial(assign_replicas_to_dirs, request=request))
    return response


def codes(response: AssignReplicasToDirsResponse) -> list[int]:
    return [
        partition.error_code
        for directory in response.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]


def test_assigned_directory_is_stored_and_the_leader_stays(cluster: Cluster) -> None:
    response = query(cluster, {directory(1, 1): [(topic_of(cluster, "t").topic_id, 0)]})
    assert codes(response) == [ErrorCode.NONE]
    after = cluster.partition("t")
    assert (after.directories, after.leader, after.leader_epoch) == ((directory(1, 1), directory(2, 0)), 1, 0)


def test_unchanged_directory_writes_no_record(cluster: Cluster) -> None:
    assert codes(query(cluster, {directory(1, 0): [(topic_of(cluster, "t").topic_id, 0)]})) == [ErrorCode.NONE]
    assert cluster.records == ()


def test_replica_in_a_failed_directory_leaves_the_isr_and_another_leads(cluster: Cluster) -> None:
    query(cluster, {DirectoryId.LOST: [(topic_of(cluster, "t").topic_id, 0)]})
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.directories) == (2, (2,), (DirectoryId.LOST, directory(2, 0)))


def test_last_in_sync_replica_stays_in_the_isr_and_leads_again_from_an_online_directory(cluster: Cluster) -> None:
    topic_id = topic_of(cluster, "t").topic_id
    change(cluster, isr=[1])
    query(cluster, {directory(1, 7): [(topic_id, 0)]})
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (NO_LEADER, (1,))
    query(cluster, {directory(1, 1): [(topic_id, 0)]})
    assert cluster.partition("t").leader == 1


def test_each_partition_has_its_own_error_code(cluster: Cluster) -> None:
    known, other = topic_of(cluster, "t").topic_id, topic_of(cluster, "u").topic_id
    response = query(cluster, {directory(1, 1): [(b"?" * 16, 0), (known, 5), (other, 0), (known, 0)]})
    assert codes(response) == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NONE,
    ]
    assert len(cluster.records) == 1


def test_last_directory_of_a_duplicated_replica_applies(cluster: Cluster) -> None:
    replica = (topic_of(cluster, "t").topic_id, 0)
    assert codes(query(cluster, {directory(1, 7): [replica], directory(1, 1): [replica]})) == [ErrorCode.NONE] * 2
    after = cluster.partition("t")
    assert (after.directories[0], after.leader) == (directory(1, 1), 1)


def test_stale_or_unknown_broker_cannot_assign_directories(cluster: Cluster) -> None:
    homes = {directory(1, 1): [(topic_of(cluster, "t").topic_id, 0)]}
    for response in (query(cluster, homes, late=1), query(cluster, homes, broker=9)):
        assert (response.error_code, response.directories) == (ErrorCode.STALE_BROKER_EPOCH, [])
    assert cluster.records == ()
