"""GetTelemetrySubscriptions and PushTelemetry, sent by a client."""

from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.compression import Compression
from protocol.errors import ErrorCode, KafkaError
from protocol.records.metadata import ConfigRecord
from tests.unit.broker.node import Node


def test_client_gets_its_subscription(node: Node) -> None:
    node.commit(ConfigRecord(resource_type=16, resource_name="all", name="metrics", value="a.,b."))
    response = node.answer(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=b"i" * 16)
    assert response.client_instance_id == b"i" * 16
    assert response.requested_metrics == ["a.", "b."]
    assert response.push_interval_ms == 300_000
    assert response.telemetry_max_bytes == 1 << 20
    assert response.delta_temporality
    assert set(response.accepted_compression_types) == set(Compression) - {Compression.NONE}


def test_response_without_a_subscription_requests_no_metrics(node: Node) -> None:
    response = node.answer(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=bytes(16))
    assert response.client_instance_id != bytes(16)
    assert response.requested_metrics == []


def test_metrics_are_accepted_under_the_current_subscription_only(node: Node) -> None:
    requested = node.answer(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=bytes(16))
    push = {"client_instance_id": requested.client_instance_id, "terminating": False, "compression_type": 0}
    response = node.answer(ApiKey.PUSH_TELEMETRY, 0, subscription_id=requested.subscription_id, metrics=b"m", **push)
    assert response.error_code == ErrorCode.NONE
    node.pass_time(300)
    with pytest.raises(KafkaError) as refused:
        node.answer(ApiKey.PUSH_TELEMETRY, 0, subscription_id=requested.subscription_id + 1, metrics=b"m", **push)
    assert refused.value.code is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert node.broker.telemetry.pushes == 1
