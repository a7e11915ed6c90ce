"""CreateTopics and DeleteTopics."""

from __future__ import annotations

from collections import Counter

import pytest

from controller.image import ResourceType
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.records.metadata import BrokerRegistrationChangeRecord, ConfigRecord, PartitionRecord, TopicRecord
from tests.unit.controller.cluster import Cluster, directory, new_topic


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_new_topic_has_leaders_and_full_isrs(cluster: Cluster) -> None:
    answer = cluster.create("t", 3)
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (ErrorCode.NONE, 3, 1)
    topic = cluster.image.topic("t")
    assert topic is not None
    assert topic.topic_id == answer.topic_id
    assert cluster.image.topic_by_id(answer.topic_id) is topic
    assert list(topic.partitions) == [0, 1, 2]
    for partition in topic.partitions.values():
        assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        assert partition.directories == (directory(1),)


def test_records_are_the_topic_then_its_configs_then_its_partitions(cluster: Cluster) -> None:
    cluster.create("t", 2, configs={"retention.ms": "5"})
    assert [type(record) for record in cluster.records] == [
        TopicRecord,
        ConfigRecord,
        PartitionRecord,
        PartitionRecord,
    ]


def test_partitions_are_spread_over_several_directories() -> None:
    cluster = Cluster(brokers=0)
    cluster.add_broker(1, directories=2)
    cluster.create("t", 4)
    placed = Counter(cluster.partition("t", index).directories for index in range(4))
    assert placed == {(directory(1, 0),): 2, (directory(1, 1),): 2}


def test_counts_of_minus_1_use_the_defaults() -> None:
    cluster = Cluster({"num.partitions": "4", "default.replication.factor": "2"}, brokers=2)
    answer = cluster.create("t", -1, -1)
    assert (answer.num_partitions, answer.replication_factor) == (4, 2)


def test_validation_alone_writes_nothing(cluster: Cluster) -> None:
    [answer] = cluster.create_all(new_topic("t"), validate_only=True)
    assert answer.error_code == ErrorCode.NONE
    assert cluster.records == ()
    assert cluster.image.topic("t") is None


def test_topic_ids_differ_and_are_random_uuids(cluster: Cluster) -> None:
    ids = {cluster.create(f"t{number}").topic_id for number in range(50)}
    assert len(ids) == 50
    assert all(value[6] >> 4 == 4 and value[8] >> 6 == 0b10 for value in ids)


def test_configs_are_stored_and_returned_with_their_sources(cluster: Cluster) -> None:
    cluster.settings.explicit["log.segment.bytes"] = "2000000"
    answer = cluster.create("t", configs={"retention.ms": "5000"})
    assert cluster.image.configs(ResourceType.TOPIC, "t") == {"retention.ms": "5000"}
    reported = {config.name: (config.value, config.config_source) for config in answer.configs or ()}
    assert reported["retention.ms"] == ("5000", 1)
    assert reported["segment.bytes"] == ("2000000", 4)
    assert reported["cleanup.policy"] == ("delete", 5)
    assert "internal.segment.bytes" not in reported


@pytest.mark.parametrize(
    ("topic", "error", "message"),
    [
        (new_topic("t", 0), ErrorCode.INVALID_PARTITIONS, "invalid non-positive value"),
        (new_topic("t", -2), ErrorCode.INVALID_PARTITIONS, "invalid non-positive value"),
        (new_topic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0, or -1"),
        (new_topic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0, or -1"),
        (new_topic("t", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR, "Unable to replicate the partition 3 time(s)"),
        (new_topic("t", 10_001), ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions"),
        (new_topic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "'a b' contains one or more characters"),
        (new_topic("is.there"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'is.there' already exists."),
        (new_topic("is_there"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic: is.there"),
        (new_topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "prohibited"),
        (new_topic("t", configs={"foo": "1"}), ErrorCode.INVALID_CONFIG, "Unknown topic config name: foo"),
        (new_topic("t", configs={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG, "Not a number of type LONG"),
        (new_topic("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG, "Null value not supported"),
        (
            new_topic("t", configs={"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}),
            ErrorCode.INVALID_CONFIG,
            "min.compaction.lag.ms (9) > max.compaction.lag.ms (8)",
        ),
        (
            new_topic("t", configs={"remote.storage.enable": "true"}),
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled",
        ),
        (new_topic("t", assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive 0-based"),
        (
            new_topic("t", assignments=[(0, [1]), (0, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "multiple manual partition assignments for partition 0",
        ),
        (new_topic("t", assignments={0: [9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes broker 9"),
        (new_topic("t", assignments={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 1 more than once"),
        (new_topic("t", assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
    ],
)
def test_invalid_topics_are_rejected_with_a_reason(
    cluster: Cluster, topic: CreateTopicsRequest.Topic, error: ErrorCode, message: str
) -> None:
    cluster.create("is.there")
    [answer] = cluster.create_all(topic)
    assert answer.error_code == error
    assert message in (answer.error_message or "")
    assert cluster.records == ()


def test_duplicate_topic_is_rejected_and_the_others_are_created(cluster: Cluster) -> None:
    answers = cluster.create_all(new_topic("twice"), new_topic("twice"), new_topic("once"))
    assert {answer.name: answer.error_code for answer in answers} == {
        "twice": ErrorCode.INVALID_REQUEST,
        "once": ErrorCode.NONE,
    }
    assert cluster.image.topic("once") is not None
    assert cluster.image.topic("twice") is None


def test_topics_of_one_request_collide_with_each_other(cluster: Cluster) -> None:
    answers = cluster.create_all(new_topic("a.b"), new_topic("a_b"))
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_request_with_too_many_partitions_in_total_creates_nothing(cluster: Cluster) -> None:
    answers = cluster.create_all(new_topic("a", 6000), new_topic("b", 6000))
    assert [answer.error_code for answer in answers] == [ErrorCode.POLICY_VIOLATION] * 2


def test_negative_partition_count_does_not_raise_the_request_limit(cluster: Cluster) -> None:
    answers = cluster.create_all(new_topic("a", -(2**31)), new_topic("b", 2**31 - 1))
    assert [answer.error_code for answer in answers] == [ErrorCode.POLICY_VIOLATION] * 2


def test_manual_replica_assignments_are_kept() -> None:
    cluster = Cluster(brokers=3)
    answer = cluster.create("t", assignments={1: [3, 1], 0: [2, 3]})
    assert (answer.num_partitions, answer.replication_factor) == (2, 2)
    assert cluster.partition("t", 0).replicas == (2, 3)
    assert (cluster.partition("t", 1).leader, cluster.partition("t", 1).isr) == (3, (3, 1))


def test_assignments_must_have_equally_many_replicas() -> None:
    answer = Cluster(brokers=3).create("t", assignments={0: [1], 1: [2, 3]})
    assert answer.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "2 replica(s)" in (answer.error_message or "")


@pytest.mark.parametrize(("partitions", "replicas"), [(1, -1), (-1, 1)])
def test_counts_beside_assignments_are_refused(cluster: Cluster, partitions: int, replicas: int) -> None:
    topic = new_topic("t", assignments={0: [1]})
    topic.num_partitions, topic.replication_factor = partitions, replicas
    [answer] = cluster.create_all(topic)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("requested", [3, -1])
def test_more_replicas_than_brokers_are_rejected_with_kafkas_message(requested: int) -> None:
    cluster = Cluster({"default.replication.factor": "3"}, brokers=2)
    answer = cluster.create("t", 1, requested)
    assert answer.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert answer.error_message == (
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
        "only 2 broker(s) are registered."
    )


def test_a_broker_that_shuts_down_gets_no_new_replicas() -> None:
    cluster = Cluster(brokers=3)
    stops = BrokerRegistrationChangeRecord(
        broker_id=2, broker_epoch=cluster.image.brokers[2].epoch, in_controlled_shutdown=1
    )
    cluster.replay([stops])
    assert cluster.create("t", 1, 3).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    cluster.create("t", 6, 2)
    assert {cluster.partition("t", index).isr for index in range(6)} == {(1, 3), (3, 1)}
    cluster.create("u", assignments={0: [2, 1]})
    assert (cluster.partition("u").leader, cluster.partition("u").isr) == (1, (1,))


def test_fenced_brokers_get_the_remaining_replicas_outside_the_isr() -> None:
    cluster = Cluster(brokers=2)
    cluster.add_broker(3, fenced=True)
    assert cluster.create("t", 6, 3).error_code == ErrorCode.NONE
    for index in range(6):
        assert cluster.partition("t", index).replicas[2] == 3
        assert set(cluster.partition("t", index).isr) == {1, 2}


def test_min_isr_above_the_replication_factor_is_accepted(cluster: Cluster) -> None:
    assert cluster.create("t", configs={"min.insync.replicas": "3"}).error_code == ErrorCode.NONE
    assert cluster.create("u", configs={"min.insync.replicas": "0"}).error_code == ErrorCode.INVALID_CONFIG


def test_replicas_on_fenced_brokers_are_not_in_sync() -> None:
    cluster = Cluster(brokers=2)
    cluster.add_broker(3, fenced=True)
    cluster.create("t", assignments={0: [3, 2]})
    assert (cluster.partition("t").isr, cluster.partition("t").leader) == ((2,), 2)


def test_a_partition_only_on_fenced_brokers_is_refused(cluster: Cluster) -> None:
    cluster.add_broker(2, fenced=True)
    assert cluster.create("t", assignments={0: [2]}).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_topics_are_deleted_by_name_and_by_id(cluster: Cluster) -> None:
    by_name, by_id = cluster.create("a", configs={"retention.ms": "1"}), cluster.create("b")
    answers = cluster.delete("a", ids=[by_id.topic_id])
    assert [(answer.name, answer.topic_id, answer.error_code) for answer in answers] == [
        ("a", by_name.topic_id, ErrorCode.NONE),
        ("b", by_id.topic_id, ErrorCode.NONE),
    ]
    assert not cluster.image.topics()
    assert cluster.image.topic_by_id(by_name.topic_id) is None
    assert cluster.image.configs(ResourceType.TOPIC, "a") == {}


def test_a_topic_created_again_has_another_id(cluster: Cluster) -> None:
    first = cluster.create("t")
    cluster.delete("t")
    assert cluster.create("t").topic_id != first.topic_id


def test_unknown_topics_are_not_deleted(cluster: Cluster) -> None:
    answers = cluster.delete("nope", ids=[b"x" * 16])
    assert [answer.error_code for answer in answers] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]


def test_a_topic_named_twice_is_not_deleted(cluster: Cluster) -> None:
    cluster.create("t")
    [answer] = cluster.delete("t", "t")
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert cluster.image.topic("t") is not None


def test_topic_given_by_both_name_and_id_is_not_deleted(cluster: Cluster) -> None:
    topic_id = cluster.create("t").topic_id
    [answer] = cluster.delete("t", ids=[topic_id])
    assert (answer.name, answer.topic_id, answer.error_code) == ("t", topic_id, ErrorCode.INVALID_REQUEST)
    assert cluster.image.topic("t") is not None


def test_deletion_can_be_disabled() -> None:
    cluster = Cluster({"delete.topic.enable": "false"})
    cluster.create("t")
    [answer] = cluster.delete("t")
    assert answer.error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert cluster.image.topic("t") is not None
