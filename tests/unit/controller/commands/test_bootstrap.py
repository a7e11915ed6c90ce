"""The first records of a cluster."""

from __future__ import annotations

from controller.commands.bootstrap import bootstrap, bootstrap_records
from protocol.records.metadata import BeginTransactionRecord, EndTransactionRecord
from tests.unit.controller.cluster import Cluster


def test_metadata_version_comes_first_and_features_at_0_not_at_all() -> None:
    assert [(record.name, record.feature_level) for record in bootstrap_records()] == [("metadata.version", 30)]


def test_a_cluster_begins_once() -> None:
    cluster = Cluster(brokers=0)
    cluster.apply(lambda image: bootstrap(image, bootstrap_records()))
    assert isinstance(cluster.records[0], BeginTransactionRecord)
    assert isinstance(cluster.records[-1], EndTransactionRecord)
    assert cluster.image.features == {"metadata.version": 30}
    cluster.apply(lambda image: bootstrap(image, bootstrap_records()))
    assert cluster.records == ()
