"""Altering the configurations that elections depend on: min.insync.replicas and unclean.leader.election.enable."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from controller.commands.alter_configs import AlterConfigOp, alter_configs, incremental_alter_configs
from controller.commands.features import UpgradeType, update_features
from controller.image import NO_LEADER, PartitionImage, ResourceType
from controller.partition_change import ELR_VERSION
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.update_features import UpdateFeaturesRequest
from protocol.records.metadata import ConfigRecord
from tests.unit.controller.cluster import Cluster
from tests.unit.controller.partitions import change, enable_elr, fence

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"


@pytest.fixture
def cluster() -> Cluster:
    """Topics t and u on brokers 1 and 2."""
    cluster = Cluster(brokers=2)
    for name in ("t", "u"):
        cluster.create(name, assignments={0: [1, 2]})
    return cluster


def alter(
    cluster: Cluster,
    resource_type: int,
    name: str,
    key: str,
    value: str | None,
    *,
    operation: int = AlterConfigOp.SET,
    validate_only: bool = False,
) -> int:
    Resource = IncrementalAlterConfigsRequest.Resource  # noqa: N806
    config = Resource.Config(name=key, config_operation=operation, value=value)
    resource = Resource(resource_type=resource_type, resource_name=name, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    command = partial(incremental_alter_configs, request=request, settings=cluster.settings)
    [answer] = cluster.apply(command).responses
    code: int = answer.error_code
    return code


def eligible(partition: PartitionImage) -> tuple[Any, Any]:
    return partition.eligible_leader_replicas, partition.last_known_elr


@pytest.fixture
def tracking(cluster: Cluster) -> Cluster:
    """Both topics have no leader; broker 1 is in their ELR."""
    enable_elr(cluster)
    for name in ("t", "u"):
        change(cluster, name, leader=NO_LEADER, isr=[], eligible_leader_replicas=[1], last_known_elr=[2])
    return cluster


def test_changing_min_isr_of_a_topic_clears_its_elr(tracking: Cluster) -> None:
    assert alter(tracking, TOPIC, "t", MIN_ISR, "2") == ErrorCode.NONE
    assert eligible(tracking.partition("t")) == ((), ())
    assert eligible(tracking.partition("u")) == ((1,), (2,))


def test_changing_the_cluster_default_min_isr_clears_all_elrs(tracking: Cluster) -> None:
    assert alter(tracking, BROKER, "", MIN_ISR, "2") == ErrorCode.NONE
    assert eligible(tracking.partition("t")) == eligible(tracking.partition("u")) == ((), ())


def test_other_configs_do_not_clear_the_elr(tracking: Cluster) -> None:
    assert alter(tracking, TOPIC, "t", "retention.ms", "1000") == ErrorCode.NONE
    assert eligible(tracking.partition("t")) == ((1,), (2,))


def test_alter_configs_that_changes_min_isr_clears_the_elr(tracking: Cluster) -> None:
    Resource = AlterConfigsRequest.Resource  # noqa: N806
    configs = [Resource.Config(name=MIN_ISR, value="2")]
    resource = Resource(resource_type=TOPIC, resource_name="t", configs=configs)
    request = AlterConfigsRequest(resources=[resource], validate_only=False)
    tracking.apply(partial(alter_configs, request=request, settings=tracking.settings))
    assert eligible(tracking.partition("t")) == ((), ())


def test_validate_only_does_not_clear_the_elr(tracking: Cluster) -> None:
    assert alter(tracking, TOPIC, "t", MIN_ISR, "2", validate_only=True) == ErrorCode.NONE
    assert tracking.records == ()


def test_min_isr_of_a_single_broker_is_rejected_with_elr_enabled(tracking: Cluster) -> None:
    assert alter(tracking, BROKER, "", MIN_ISR, "2") == ErrorCode.NONE
    assert alter(tracking, BROKER, "1", MIN_ISR, "2") == ErrorCode.INVALID_CONFIG
    assert alter(tracking, BROKER, "1", MIN_ISR, None, operation=AlterConfigOp.DELETE) == ErrorCode.INVALID_CONFIG
    assert alter(tracking, BROKER, "", MIN_ISR, None, operation=AlterConfigOp.DELETE) == ErrorCode.INVALID_CONFIG
    assert tracking.image.configs(BROKER, "") == {MIN_ISR: "2"}


def test_alter_configs_cannot_remove_the_cluster_default_min_isr_with_elr_enabled(tracking: Cluster) -> None:
    alter(tracking, BROKER, "", MIN_ISR, "2")
    resource = AlterConfigsRequest.Resource(resource_type=BROKER, resource_name="", configs=[])
    request = AlterConfigsRequest(resources=[resource], validate_only=False)
    [answer] = tracking.apply(partial(alter_configs, request=request, settings=tracking.settings)).responses
    assert answer.error_code == ErrorCode.INVALID_CONFIG


def test_min_isr_of_a_single_broker_is_accepted_with_elr_disabled(cluster: Cluster) -> None:
    assert alter(cluster, BROKER, "1", MIN_ISR, "2") == ErrorCode.NONE
    assert [type(record) for record in cluster.records] == [ConfigRecord]


def test_enabling_unclean_election_of_a_topic_elects_a_leader_immediately(cluster: Cluster) -> None:
    for name in ("t", "u"):
        change(cluster, name, isr=[1])
    fence(cluster, 1)
    assert alter(cluster, TOPIC, "t", UNCLEAN, "true") == ErrorCode.NONE
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), 1)
    assert cluster.partition("u").leader == NO_LEADER
    assert alter(cluster, BROKER, "", UNCLEAN, "true") == ErrorCode.NONE
    assert cluster.partition("u").leader == 2


def test_disabling_unclean_election_keeps_the_leader(cluster: Cluster) -> None:
    assert alter(cluster, TOPIC, "t", UNCLEAN, "false") == ErrorCode.NONE
    assert [type(record) for record in cluster.records] == [ConfigRecord]


def test_enabling_elr_writes_the_cluster_default_min_isr(cluster: Cluster) -> None:
    cluster.settings.explicit[MIN_ISR] = "3"
    alter(cluster, BROKER, "1", MIN_ISR, "2")
    update = UpdateFeaturesRequest.Update(feature=ELR_VERSION, max_version_level=1, upgrade_type=UpgradeType.UPGRADE)
    request = UpdateFeaturesRequest(feature_updates=[update])
    cluster.apply(partial(update_features, request=request, kraft_version=0, settings=cluster.settings))
    assert cluster.image.features[ELR_VERSION] == 1
    assert cluster.image.configs(BROKER, "") == {MIN_ISR: "3"}
    assert cluster.image.configs(BROKER, "1") == {}
