"""Admin requests of kafka-python and librdkafka: directories, producers, elections, features."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient, KafkaProducer
from kafka import TopicPartition as Partition
from kafka.errors import (
    BrokerResponseError,
    InvalidReplicationAssignmentError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)

from tests.broker_process import BrokerProcess


@pytest.fixture(scope="module")
def python(broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


@pytest.fixture
def written(broker: BrokerProcess, create_topic: Callable[..., str]) -> str:
    """A topic of two partitions, with ten records of one idempotent producer in the first."""
    topic = create_topic(2)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for _ in range(10):
        producer.send(topic, b"v", partition=0)
    producer.close()
    return topic


def outcome(futures: dict[Any, Any]) -> int:
    """Return the error code of the only future, 0 for none."""
    [future] = futures.values()
    try:
        future.result(30)
    except KafkaException as failed:
        return int(failed.args[0].code())
    return 0


class TestDirectories:
    def test_describe_log_dirs_returns_sizes_of_logs(
        self, broker: BrokerProcess, python: KafkaAdminClient, written: str
    ) -> None:
        [answer] = python.describe_log_dirs({written: [0, 1]})
        [directory] = answer["log_dirs"]
        [topic] = directory["topics"]
        sizes = {one["partition_index"]: one["partition_size"] for one in topic["partitions"]}
        log = broker.data_dir / f"{written}-0" / "00000000000000000000.log"
        assert (directory["log_dir"], topic["name"]) == (str(broker.data_dir), written)
        assert sizes == {0: os.path.getsize(log), 1: 0}

    def test_describe_log_dirs_returns_size_of_volume(self, python: KafkaAdminClient) -> None:
        [directory] = python.describe_log_dirs()[0]["log_dirs"]
        assert 0 < directory["usable_bytes"] < directory["total_bytes"]


class TestProducers:
    def test_describe_producers_returns_idempotent_producer(self, python: KafkaAdminClient, written: str) -> None:
        found = python.describe_producers([Partition(written, 0), Partition(written, 1)])
        [producer] = found[Partition(written, 0)].active_producers
        assert (producer.last_sequence, producer.current_transaction_start_offset) == (9, -1)
        assert found[Partition(written, 1)].active_producers == []


class TestElections:
    @pytest.mark.parametrize("kind", [ElectionType.PREFERRED, ElectionType.UNCLEAN])
    def test_leader_needs_no_election(self, admin: AdminClient, written: str, kind: ElectionType) -> None:
        wanted = [TopicPartition(written, 0), TopicPartition(written, 7), TopicPartition("missing", 0)]
        found = admin.elect_leaders(kind, wanted).result(30)
        assert [found[one].code() for one in wanted] == [
            KafkaError.ELECTION_NOT_NEEDED,
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError.UNKNOWN_TOPIC_OR_PART,
        ]

    def test_no_partition_needs_election(self, admin: AdminClient, written: str) -> None:
        assert admin.elect_leaders(ElectionType.PREFERRED).result(30) == {}


class TestReassignments:
    def test_only_broker_accepts_reassignment_to_itself(self, python: KafkaAdminClient, written: str) -> None:
        node = python.describe_cluster()["brokers"][0]["broker_id"]
        wanted = {Partition(written, 0): [node], Partition(written, 1): [node + 1], Partition("missing", 0): [node]}
        assert python.alter_partition_reassignments(wanted) == {
            Partition(written, 0): None,
            Partition(written, 1): InvalidReplicationAssignmentError,
            Partition("missing", 0): UnknownTopicOrPartitionError,
        }
        assert python.list_partition_reassignments() == {}

    def test_cancelling_without_reassignment_is_an_error(self, python: KafkaAdminClient, written: str) -> None:
        partition = Partition(written, 0)
        assert python.alter_partition_reassignments({partition: None}) == {partition: NoReassignmentInProgressError}


class TestCluster:
    def test_quorum_has_one_voter(self, python: KafkaAdminClient) -> None:
        quorum = python.describe_metadata_quorum()["topics"][0]["partitions"][0]
        [voter] = quorum["current_voters"]
        assert voter["replica_id"] == quorum["leader_id"]
        assert voter["log_end_offset"] == quorum["high_watermark"] > 0

    def test_features_can_be_upgraded_to_supported_versions(self, python: KafkaAdminClient) -> None:
        level = python.describe_features()["metadata.version"]["supported"][1]
        assert python.update_features({"metadata.version": level}) == {"metadata.version": "OK"}
        with pytest.raises(BrokerResponseError, match="Invalid update version"):
            python.update_features({"metadata.version": level + 1})

    def test_create_acls_without_authorizer_is_rejected(self, admin: AdminClient) -> None:
        rule = AclBinding(
            ResourceType.TOPIC,
            "t",
            ResourcePatternType.LITERAL,
            "User:me",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        assert outcome(admin.create_acls([rule])) == KafkaError.SECURITY_DISABLED

    def test_users_have_no_scram_credentials(self, admin: AdminClient) -> None:
        assert admin.describe_user_scram_credentials(None).result(30) == {}  # type: ignore[union-attr]  # of a type that is known here


class TestTopics:
    def test_validate_only_creates_no_topic(self, admin: AdminClient, topic: str) -> None:
        assert outcome(admin.create_topics([NewTopic(topic, 2, 1)], validate_only=True)) == 0
        assert topic not in admin.list_topics(timeout=30).topics
        assert outcome(admin.create_topics([NewTopic(topic, 2, 9)], validate_only=True)) == 38

    def test_validate_only_adds_no_partitions(self, admin: AdminClient, written: str) -> None:
        assert outcome(admin.create_partitions([NewPartitions(written, 3)], validate_only=True)) == 0
        assert outcome(admin.create_partitions([NewPartitions(written, 1)], validate_only=True)) == 37
        assert len(admin.list_topics(written, timeout=30).topics[written].partitions) == 2

    def test_replicas_can_be_assigned_manually(self, admin: AdminClient, topic: str) -> None:
        [node] = admin.list_topics(timeout=30).brokers
        assert outcome(admin.create_topics([NewTopic(topic, 2, replica_assignment=[[node], [node]])])) == 0
        assert outcome(admin.create_partitions([NewPartitions(topic, 3, replica_assignment=[[node]])])) == 0
        assert outcome(admin.create_partitions([NewPartitions(topic, 4, replica_assignment=[[node + 1]])])) == 39
        assert len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == 3
