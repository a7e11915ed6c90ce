"""PushTelemetry, sent by a client."""

from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from tests.unit.broker.node import Node


def test_metrics_are_accepted_under_the_current_subscription_only(node: Node) -> None:
    asked = node.answer(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=bytes(16))
    push = {"client_instance_id": asked.client_instance_id, "terminating": False, "compression_type": 0}
    response = node.answer(ApiKey.PUSH_TELEMETRY, 0, subscription_id=asked.subscription_id, metrics=b"m", **push)
    assert response.error_code == ErrorCode.NONE
    node.pass_time(300)
    with pytest.raises(KafkaError) as refused:
        node.answer(ApiKey.PUSH_TELEMETRY, 0, subscription_id=asked.subscription_id + 1, metrics=b"m", **push)
    assert refused.value.code is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert node.telemetry.pushes == 1
