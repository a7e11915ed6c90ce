from __future__ import annotations

import pytest

from tests.unit.barnabas.conftest import Command


@pytest.fixture
def of(barnabas: Command, topic: str) -> str:
    """A topic that has two settings of its own."""
    barnabas("topic", "create", topic, "-c", "retention.ms=1", "-c", "cleanup.policy=compact")
    return f"topic/{topic}"


def test_a_dry_run_says_what_each_would_be(barnabas: Command, of: str) -> None:
    assert barnabas("config", "reset", of, "--all", "--dry-run").lines == [
        "would reset cleanup.policy: compact -> delete",
        "would reset retention.ms: 1 -> the default",
    ]
    assert barnabas("config", "get", of, "retention.ms").out == "1\n"


def test_settings_are_reset_one_by_one_or_all(barnabas: Command, of: str) -> None:
    assert barnabas("config", "reset", of, "cleanup.policy") == (0, "reset cleanup.policy: compact -> delete\n", "")
    assert barnabas("config", "reset", of, "--all").status == 0
    assert barnabas("config", "list", of).lines == ["NAME  VALUE  SOURCE"]
    assert barnabas("config", "reset", of, "retention.ms").out == "reset retention.ms: it was not set\n"


def test_a_setting_that_there_is_not_is_named_and_nothing_is_reset(barnabas: Command, of: str) -> None:
    status, out, err = barnabas("config", "reset", of, "retention.ms", "nonsense")
    assert (status, out) == (1, "")
    assert err == f"barnabas config reset: nonsense: {of} has no such setting\n"
    assert barnabas("config", "get", of, "retention.ms").out == "1\n"


@pytest.mark.parametrize("arguments", [[], ["retention.ms", "--all"]])
def test_either_settings_are_named_or_all_are_meant(call: Command, arguments: list[str]) -> None:
    status, _, err = call("config", "reset", "topic/t", *arguments)
    assert (status, err) == (2, "barnabas config reset: name settings, or give --all\n")
