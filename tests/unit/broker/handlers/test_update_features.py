"""UpdateFeatures, sent by a client."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.update_features import UpdateFeaturesRequest
from tests.unit.broker.conftest import NewController
from tests.unit.broker.controller_node import ControllerNode


def update(node: ControllerNode, version: int, **levels: int) -> Any:
    updates = [
        UpdateFeaturesRequest.Update(feature=name.replace("_", "."), max_version_level=level)
        for name, level in levels.items()
    ]
    return node.query(ApiKey.UPDATE_FEATURES, version, feature_updates=updates)


@pytest.mark.parametrize("version", range(3))
def test_upgrade_to_the_current_highest_level_succeeds(controlled: ControllerNode, version: int) -> None:
    response = update(controlled, version, metadata_version=30, kraft_version=1)
    assert response.error_code == ErrorCode.NONE
    named = [(result.feature, result.error_code) for result in response.results]
    assert named == ([("metadata.version", 0), ("kraft.version", 0)] if version < 2 else [])


@pytest.mark.parametrize("version", range(3))
def test_unsupported_feature_cannot_be_upgraded(controlled: ControllerNode, version: int) -> None:
    with pytest.raises(KafkaError, match=r"share\.version") as refused:
        update(controlled, version, share_version=1)
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert "share.version" not in controlled.image.features


def test_kraft_version_of_a_static_quorum_cannot_be_upgraded(new_controller: NewController) -> None:
    controlled = new_controller(controller_quorum_voters="1@localhost:9093", node_id="1")
    assert update(controlled, 2, kraft_version=0).error_code == ErrorCode.NONE
    with pytest.raises(KafkaError) as refused:
        update(controlled, 2, kraft_version=1)
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
