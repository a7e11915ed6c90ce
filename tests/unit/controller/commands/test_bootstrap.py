"""The bootstrap records of a cluster."""

from __future__ import annotations

from controller.commands.bootstrap import bootstrap, bootstrap_records
from controller.image import ResourceType
from protocol.records.metadata import BeginTransactionRecord, EndTransactionRecord, FeatureLevelRecord
from protocol.schema import Message
from tests.unit.controller.cluster import Cluster

METADATA_VERSION = FeatureLevelRecord(name="metadata.version", feature_level=30)


def begin(cluster: Cluster, *records: Message) -> None:
    cluster.apply(lambda image: bootstrap(image, records, cluster.settings))


def test_metadata_version_is_the_first_record_and_features_at_level_0_are_left_out() -> None:
    levels = [(record.name, record.feature_level) for record in bootstrap_records()]
    assert levels == [("metadata.version", 30), ("transaction.version", 2), ("eligible.leader.replicas.version", 1)]


def test_cluster_is_bootstrapped_once() -> None:
    cluster = Cluster(brokers=0)
    begin(cluster, *bootstrap_records())
    assert isinstance(cluster.records[0], BeginTransactionRecord)
    assert isinstance(cluster.records[-1], EndTransactionRecord)
    assert cluster.image.features == {
        "metadata.version": 30,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
    }
    begin(cluster, *bootstrap_records())
    assert cluster.records == ()


def test_with_elr_the_first_controllers_min_isr_becomes_the_cluster_default() -> None:
    cluster = Cluster({"min.insync.replicas": "2"}, brokers=0)
    begin(cluster, *bootstrap_records())
    assert cluster.image.configs(ResourceType.BROKER, "") == {"min.insync.replicas": "2"}


def test_without_elr_no_cluster_default_min_isr_is_written() -> None:
    cluster = Cluster({"min.insync.replicas": "2"}, brokers=0)
    begin(cluster, METADATA_VERSION)
    assert cluster.image.configs(ResourceType.BROKER, "") == {}
