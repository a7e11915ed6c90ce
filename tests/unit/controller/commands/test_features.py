"""UpdateFeatures: finalized levels of features are upgraded and downgraded."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from controller.commands.features import UpgradeType, update_features
from controller.commands.registration import register_controller
from protocol import api
from protocol.api import Feature
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.broker_registration import SupportedFeature
from protocol.messages.controller_registration import ControllerRegistrationRequest
from protocol.messages.update_features import UpdateFeaturesRequest
from tests.unit.controller.cluster import Cluster

UP, DOWN, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
NAME = "transaction.version"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster that supports a feature up to level 2, finalized at 1."""
    monkeypatch.setitem(api.FEATURES, NAME, Feature(0, 2, 2))
    cluster = Cluster(brokers=0)
    register(cluster, 1, highest=2)
    update(cluster, (NAME, 1, UP))
    return cluster


def register(cluster: Cluster, broker_id: int, *, highest: int) -> None:
    features = {name: (feature.min_level, feature.max_level) for name, feature in api.FEATURES.items()}
    cluster.add_broker(broker_id, features=features | {NAME: (0, highest)})


def new_controller(levels: Feature) -> ControllerRegistrationRequest:
    supported = SupportedFeature(
        name=NAME, min_supported_version=levels.min_level, max_supported_version=levels.max_level
    )
    return ControllerRegistrationRequest(
        controller_id=7, incarnation_id=b"i" * 16, zk_migration_ready=False, listeners=[], features=[supported]
    )


def update(cluster: Cluster, *updates: tuple[str, int, int], kraft_version: int = 1, **options: Any) -> Any:
    request = UpdateFeaturesRequest(
        feature_updates=[
            UpdateFeaturesRequest.Update(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in updates
        ],
        **options,
    )
    return cluster.apply(partial(update_features, request=request, kraft_version=kraft_version))


def test_feature_is_upgraded(cluster: Cluster) -> None:
    response = update(cluster, (NAME, 2, UP))
    assert [(result.feature, result.error_code) for result in response.results] == [(NAME, ErrorCode.NONE)]
    assert cluster.image.features[NAME] == 2


@pytest.mark.parametrize("kind", [DOWN, UNSAFE])
def test_feature_is_downgraded(cluster: Cluster, kind: UpgradeType) -> None:
    update(cluster, (NAME, 0, kind))
    assert NAME not in cluster.image.features


def test_allow_downgrade_of_version_0_permits_a_downgrade(cluster: Cluster) -> None:
    lower = UpdateFeaturesRequest.Update(feature=NAME, max_version_level=0, allow_downgrade=True)
    request = UpdateFeaturesRequest(feature_updates=[lower])
    cluster.apply(partial(update_features, request=request, kraft_version=1))
    assert NAME not in cluster.image.features


@pytest.mark.parametrize("kind", UpgradeType)
def test_current_level_is_accepted_by_any_upgrade_type(cluster: Cluster, kind: UpgradeType) -> None:
    update(cluster, (NAME, 1, kind), ("kraft.version", 1, kind), ("group.version", 0, kind))
    assert cluster.records == ()


def test_validation_alone_writes_nothing(cluster: Cluster) -> None:
    assert update(cluster, (NAME, 2, UP), validate_only=True).error_code == ErrorCode.NONE
    assert cluster.records == ()


def test_last_update_of_a_duplicated_feature_applies(cluster: Cluster) -> None:
    update(cluster, (NAME, 9, UP), (NAME, 2, UP))
    assert cluster.image.features[NAME] == 2


@pytest.mark.parametrize(
    ("name", "level", "kind", "why"),
    [
        (NAME, 0, UP, "Can't downgrade the version of this feature without"),
        (NAME, 2, DOWN, "Can't downgrade to a newer version"),
        (NAME, 3, UP, "only supports versions 0-2"),
        (NAME, -1, UP, "cannot be less than 0"),
        (NAME, 2, 0, "upgrade type"),
        (NAME, 2, 9, "upgrade type"),
        ("metadata.version", 29, UNSAFE, "only supports versions 30-30"),
        ("group.version", 1, UP, "only supports versions 0-0"),
        ("kraft.version", 0, DOWN, "cannot change it from 1"),
        ("nonsense", 1, UP, "does not support this feature"),
        ("nonsense", 0, UP, "does not support this feature"),
    ],
)
def test_invalid_feature_updates_are_rejected_with_a_reason(
    cluster: Cluster, name: str, level: int, kind: int, why: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        update(cluster, (name, level, kind))
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert f"Invalid update version {level} for feature {name}" in refused.value.message
    assert why in refused.value.message


def test_every_broker_has_to_support_the_level(cluster: Cluster) -> None:
    register(cluster, 2, highest=1)
    with pytest.raises(KafkaError, match="Broker 2 only supports versions 0-1"):
        update(cluster, (NAME, 2, UP))


def test_every_controller_has_to_support_the_level(cluster: Cluster) -> None:
    cluster.apply(partial(register_controller, request=new_controller(Feature(0, 1, 1))))
    with pytest.raises(KafkaError, match="Controller 7 only supports versions 0-1"):
        update(cluster, (NAME, 2, UP))


def test_feature_updates_are_atomic(cluster: Cluster) -> None:
    with pytest.raises(KafkaError):
        update(cluster, (NAME, 2, UP), ("nonsense", 1, UP))
    assert cluster.image.features[NAME] == 1
