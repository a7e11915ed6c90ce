"""Records that set the state of partitions and brokers in a test cluster."""

from __future__ import annotations

from typing import Any

from controller.image import TopicImage
from controller.leader_and_isr_updates import on_broker_unfenced, on_brokers_fenced
from controller.partition_change import ELR_VERSION
from protocol.records.metadata import BrokerRegistrationChangeRecord, FeatureLevelRecord, PartitionChangeRecord
from tests.unit.controller.cluster import Cluster


def topic_of(cluster: Cluster, name: str) -> TopicImage:
    topic = cluster.image.topic(name)
    assert topic is not None
    return topic


def change(cluster: Cluster, name: str = "t", index: int = 0, **fields: Any) -> None:
    """Set fields of a partition."""
    topic_id = topic_of(cluster, name).topic_id
    cluster.replay([PartitionChangeRecord(partition_id=index, topic_id=topic_id, **fields)])


def registration(cluster: Cluster, broker_id: int, **fields: Any) -> BrokerRegistrationChangeRecord:
    """Return the record that sets fields of a broker's registration."""
    epoch = cluster.image.brokers[broker_id].epoch
    return BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, **fields)


def fence(cluster: Cluster, *broker_ids: int) -> None:
    """Fence brokers and elect new leaders."""
    records = on_brokers_fenced(cluster.image, broker_ids, cluster.settings)
    cluster.replay([*records, *(registration(cluster, broker_id, fenced=1) for broker_id in broker_ids)])


def unfence(cluster: Cluster, broker_id: int) -> None:
    """Unfence a broker and elect leaders for its partitions."""
    records = on_broker_unfenced(cluster.image, broker_id, cluster.settings)
    cluster.replay([registration(cluster, broker_id, fenced=-1), *records])


def enable_elr(cluster: Cluster) -> None:
    """Finalize eligible.leader.replicas.version at 1."""
    cluster.replay([FeatureLevelRecord(name=ELR_VERSION, feature_level=1)])
