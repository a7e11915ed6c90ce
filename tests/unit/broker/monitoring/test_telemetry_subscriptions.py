"""Matching of CLIENT_METRICS subscriptions to clients."""

from __future__ import annotations

import logging

import pytest

from broker.monitoring.telemetry_subscriptions import parse_subscriptions, subscribe

ID = b"i" * 16
JAVA = {"client_id": "shop-1", "client_software_name": "apache-kafka-java", "client_source_port": None}


def requested(
    configured: dict[str, dict[str, str]], client: dict[str, str | None] = JAVA
) -> tuple[tuple[str, ...], int]:
    found = subscribe(parse_subscriptions(configured), ID, client)
    return found.metrics, found.interval_ms


def test_no_subscription_requests_no_metrics_at_a_five_minute_interval() -> None:
    assert requested({}) == ((), 300_000)


def test_subscriptions_are_merged_with_the_shortest_interval() -> None:
    assert requested(
        {
            "a": {"metrics": "org.apache.kafka.producer., org.apache.kafka.consumer.", "interval.ms": "5000"},
            "b": {"metrics": "org.apache.kafka.producer.", "interval.ms": "1000"},
        }
    ) == (("org.apache.kafka.consumer.", "org.apache.kafka.producer."), 1000)


def test_wildcard_metric_replaces_all_others() -> None:
    assert requested({"a": {"metrics": "x."}, "b": {"metrics": "*"}}) == (("*",), 300_000)


@pytest.mark.parametrize(
    ("match", "meant"),
    [
        ("client_id=shop-.*", True),
        ("client_id=shop", False),  # the pattern must match the whole value
        ("client_id = shop-[0-9] , client_software_name = apache.*", True),
        ("client_id=shop-1,client_software_name=librdkafka", False),
        ("client_source_port=.*", False),  # unknown attribute value
        ("", True),
    ],
)
def test_subscription_applies_if_every_attribute_matches(match: str, meant: bool) -> None:
    assert requested({"a": {"metrics": "m.", "match": match}})[0] == (("m.",) if meant else ())


@pytest.mark.parametrize("wrong", [{"interval.ms": "soon"}, {"match": "client_id=("}, {"match": "client_id"}])
def test_invalid_subscription_is_ignored(wrong: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert requested({"bad": {"metrics": "x.", **wrong}, "good": {"metrics": "y."}})[0] == ("y.",)
    assert "Ignoring the client metrics subscription bad: " in caplog.text


def test_subscription_id_depends_on_metrics_and_matched_clients() -> None:
    def id_of(configured: dict[str, dict[str, str]], instance: bytes = ID) -> int:
        return subscribe(parse_subscriptions(configured), instance, JAVA).subscription_id

    base = {"a": {"metrics": "m.", "interval.ms": "1000"}}
    assert id_of(base) == id_of({"other": {"metrics": "m.", "interval.ms": "1000"}})
    others = {
        id_of({"a": {"metrics": "m.", "interval.ms": "2000"}}),
        id_of({"a": {"metrics": "n.", "interval.ms": "1000"}}),
        id_of(base, b"j" * 16),
    }
    assert len(others | {id_of(base)}) == 4
    assert all(-(1 << 31) <= number < 1 << 31 for number in others)
