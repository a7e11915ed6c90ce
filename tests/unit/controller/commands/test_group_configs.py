"""Validation of group configurations."""

from __future__ import annotations

import pytest

from controller.commands.alter_configs import check_group_configs
from controller.image import MetadataImage, ResourceType
from protocol.errors import ErrorCode, KafkaError
from tests.unit.controller.cluster import Settings

EMPTY = MetadataImage(cluster_id="c")


def refused(configs: dict[str, str], group: str = "g", settings: dict[str, str] | None = None) -> tuple[int, str]:
    with pytest.raises(KafkaError) as error:
        check_group_configs(EMPTY, Settings(settings), configs, group)
    return error.value.code, error.value.message


def test_group_configs_within_the_broker_limits_are_accepted() -> None:
    check_group_configs(EMPTY, Settings(), {"consumer.session.timeout.ms": "60000"}, "g")
    code, message = refused({"consumer.session.timeout.ms": "60001"})
    assert code == ErrorCode.INVALID_CONFIG
    assert "group.consumer.max.session.timeout.ms" in message
    limits = {"group.consumer.max.session.timeout.ms": "70000"}
    check_group_configs(EMPTY, Settings(limits), {"consumer.session.timeout.ms": "60001"}, "g")


def test_unset_group_configs_fall_back_to_the_broker() -> None:
    altered = {(ResourceType.BROKER, ""): {"group.consumer.assignment.interval.ms": "9000"}}
    image = MetadataImage(cluster_id="c", configs=altered)  # type: ignore[arg-type]  # only this comes here
    limits = Settings({"group.consumer.max.assignment.interval.ms": "8000"})
    with pytest.raises(KafkaError, match=r"group\.consumer\.max\.assignment\.interval\.ms"):
        check_group_configs(image, limits, {"consumer.session.timeout.ms": "60000"}, "g")


@pytest.mark.parametrize(
    ("configs", "group", "error", "problem"),
    [
        ({"foo": "1"}, "g", ErrorCode.INVALID_CONFIG, "Unknown group config name: foo"),
        ({"consumer.session.timeout.ms": "x"}, "g", ErrorCode.INVALID_CONFIG, "Not a number of type INT"),
        ({}, "", ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."),
    ],
)
def test_invalid_group_configs_are_rejected_with_a_reason(
    configs: dict[str, str], group: str, error: ErrorCode, problem: str
) -> None:
    code, message = refused(configs, group)
    assert code == error
    assert problem in message
