"""Validation of client metrics subscriptions."""

from __future__ import annotations

import pytest

from controller.commands.alter_configs import check_client_metrics_configs
from protocol.errors import ErrorCode, KafkaError


def test_valid_subscription_configs_are_accepted() -> None:
    check_client_metrics_configs({}, "m")
    check_client_metrics_configs(
        {"interval.ms": "100", "metrics": "*", "match": "client_id=a,client_source_port=1"}, "m"
    )


@pytest.mark.parametrize(
    ("configs", "name", "error", "problem"),
    [
        ({"interval.ms": "99"}, "m", ErrorCode.INVALID_REQUEST, "Invalid value 99 for interval.ms, interval must be"),
        ({"interval.ms": "3600001"}, "m", ErrorCode.INVALID_REQUEST, "interval must be between 100 and 3600000"),
        ({"interval.ms": "x"}, "m", ErrorCode.INVALID_CONFIG, "Not a number of type INT"),
        ({"match": "who=a"}, "m", ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: who=a"),
        ({"foo": "1"}, "m", ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: foo"),
        ({}, "", ErrorCode.INVALID_REQUEST, "Subscription name can't be empty"),
    ],
)
def test_invalid_subscription_configs_are_rejected_with_a_reason(
    configs: dict[str, str], name: str, error: ErrorCode, problem: str
) -> None:
    with pytest.raises(KafkaError) as refused:
        check_client_metrics_configs(configs, name)
    assert refused.value.code == error
    assert problem in refused.value.message
