from __future__ import annotations

import pytest

from tests.unit.barnabas.conftest import Command


@pytest.fixture
def of(barnabas: Command, topic: str) -> str:
    """A topic with two topic configs."""
    barnabas("topic", "create", topic, "-c", "retention.ms=1", "-c", "cleanup.policy=compact")
    return f"topic/{topic}"


def test_dry_run_prints_the_new_values(barnabas: Command, of: str) -> None:
    assert barnabas("config", "reset", of, "--all", "--dry-run").lines == [
        "would reset cleanup.policy: compact -> delete (default)",
        "would reset retention.ms: 1 -> 604800000 (default)",
    ]
    assert barnabas("config", "get", of, "retention.ms").out == "1\n"


def test_settings_are_reset_one_by_one_or_all(barnabas: Command, of: str) -> None:
    assert barnabas("config", "reset", of, "cleanup.policy") == (
        0,
        "reset cleanup.policy: compact -> delete (default)\n",
        "",
    )
    assert barnabas("config", "reset", of, "--all").status == 0
    assert barnabas("config", "list", of).lines == ["NAME  VALUE  SOURCE"]
    assert barnabas("config", "reset", of, "retention.ms").out == "reset retention.ms: it was not set\n"


def test_unchanged_value_is_not_printed(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic, "-c", "cleanup.policy=delete")
    assert barnabas("config", "reset", f"topic/{topic}", "--all") == (0, "reset cleanup.policy\n", "")


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("segment.ms", "604800000"),  # log.roll.hours
        ("segment.jitter.ms", "0"),  # log.roll.jitter.hours
        ("flush.ms", "9223372036854775807"),  # log.flush.scheduler.interval.ms
    ],
)
def test_default_is_printed_in_the_unit_of_the_setting(barnabas: Command, topic: str, name: str, default: str) -> None:
    of = f"topic/{topic}"
    barnabas("topic", "create", topic, "-c", f"{name}=9")
    assert barnabas("config", "reset", of, name).out == f"reset {name}: 9 -> {default} (default)\n"
    assert barnabas("config", "get", of, name).out == f"{default}\n"


@pytest.mark.usefixtures("settings_of_brokers")
@pytest.mark.parametrize("of", ["brokers", "broker/1"])
def test_the_default_of_brokers_may_be_a_setting_in_hours(barnabas: Command, of: str) -> None:
    barnabas("config", "set", of, "log.retention.ms=9")
    shown = barnabas("config", "reset", of, "log.retention.ms").out
    assert shown == "reset log.retention.ms: 9 -> 604800000 (default)\n"
    assert barnabas("config", "reset", of, "log.retention.ms").out == "reset log.retention.ms: it was not set\n"


@pytest.mark.usefixtures("settings_of_brokers")
def test_default_of_one_broker_is_the_cluster_wide_value(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic, "-c", "max.message.bytes=9")
    barnabas("config", "set", "brokers", "message.max.bytes=2000000")
    barnabas("config", "set", "broker/1", "message.max.bytes=3000000")
    assert barnabas("config", "reset", "brokers", "message.max.bytes", "--dry-run").out == (
        "would reset message.max.bytes: 2000000 -> 1048588 (default)\n"
    )
    assert barnabas("config", "reset", f"topic/{topic}", "max.message.bytes").out == (
        "reset max.message.bytes: 9 -> 3000000 (default)\n"
    )
    assert barnabas("config", "reset", "broker/1", "message.max.bytes").out == (
        "reset message.max.bytes: 3000000 -> 2000000 (default)\n"
    )


def test_unknown_setting_is_named_and_nothing_is_reset(barnabas: Command, of: str) -> None:
    status, out, err = barnabas("config", "reset", of, "retention.ms", "nonsense")
    assert (status, out) == (1, "")
    assert err == f"barnabas config reset: nonsense: {of} has no such setting\n"
    assert barnabas("config", "get", of, "retention.ms").out == "1\n"


@pytest.mark.parametrize("arguments", [[], ["retention.ms", "--all"]])
def test_reset_needs_either_settings_or_all(call: Command, arguments: list[str]) -> None:
    status, _, err = call("config", "reset", "topic/t", *arguments)
    assert (status, err) == (2, "barnabas config reset: name settings, or give --all\n")
