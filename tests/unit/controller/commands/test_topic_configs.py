"""Validation of topic configurations."""

from __future__ import annotations

import pytest

from controller.commands.topic_configs import check_topic_configs
from controller.image import MetadataImage, ResourceType
from protocol.errors import ErrorCode, KafkaError
from tests.unit.controller.cluster import Settings

EMPTY = MetadataImage(cluster_id="c")


def test_config_texts_are_stored_unchanged() -> None:
    assert check_topic_configs(EMPTY, Settings(), {"retention.ms": " 5 ", "cleanup.policy": ""}) == {
        "retention.ms": " 5 ",
        "cleanup.policy": "",
    }


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"foo": "1"}, "Unknown topic config name: foo"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        ({"preallocate": "yes"}, "Expected value to be either true or false"),
        ({"max.compaction.lag.ms": "5", "min.compaction.lag.ms": "6"}, "(6) > max.compaction.lag.ms (5)"),
        ({"remote.storage.enable": "TRUE"}, "Tiered Storage functionality is disabled"),
    ],
)
def test_invalid_requests_are_rejected_with_a_reason(configs: dict[str, str | None], message: str) -> None:
    with pytest.raises(KafkaError) as invalid:
        check_topic_configs(EMPTY, Settings(), configs)
    assert invalid.value.code is ErrorCode.INVALID_CONFIG
    assert message in invalid.value.message


def test_unset_topic_configs_are_validated_with_the_broker_values() -> None:
    image = MetadataImage(
        cluster_id="c", configs={(ResourceType.BROKER, ""): {"log.cleaner.max.compaction.lag.ms": "5"}}
    )
    with pytest.raises(KafkaError, match=r"min\.compaction\.lag\.ms \(6\) > max\.compaction\.lag\.ms \(5\)"):
        check_topic_configs(image, Settings(), {"min.compaction.lag.ms": "6"})
