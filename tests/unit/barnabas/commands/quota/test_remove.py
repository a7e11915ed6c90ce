from __future__ import annotations

from tests.unit.barnabas.conftest import Command

LIMIT = "producer_byte_rate=1024"


def test_a_dry_run_changes_nothing_and_shows_what_the_broker_would_refuse(barnabas: Command, topic: str) -> None:
    shown = barnabas("quota", "set", "--client-id", topic, LIMIT, "--dry-run")
    assert shown.lines == [f"would set producer_byte_rate=1024 of client-id {topic}"]
    shown = barnabas("quota", "set", "--client-id", topic, "producer_byte_rate=0.5", "--dry-run")
    assert (shown.status, shown.out) == (1, "")
    assert len(barnabas("quota", "list", "--client-id", topic).lines) == 1
    barnabas("quota", "set", "--client-id", topic, LIMIT)
    shown = barnabas("quota", "remove", "--client-id", topic, "--dry-run")
    assert shown.lines == [f"would remove producer_byte_rate=1024 of client-id {topic}"]
    assert len(barnabas("quota", "list", "--client-id", topic).lines) == 2


def test_what_is_not_set_cannot_be_removed(barnabas: Command, topic: str) -> None:
    shown = barnabas("quota", "remove", "--user", topic)
    assert (shown.status, shown.out) == (1, "")
    assert f"user {topic}: it has no quotas" in shown.err
    barnabas("quota", "set", "--user", topic, LIMIT)
    shown = barnabas("quota", "remove", "--user", topic, "producer_byte_rate", "consumer_byte_rate")
    assert (shown.status, shown.lines) == (1, [f"removed producer_byte_rate=1024 of user {topic}"])
    assert "consumer_byte_rate is not set" in shown.err
