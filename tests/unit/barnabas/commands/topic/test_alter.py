from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.barnabas.conftest import Command


def described(barnabas: Command, topic: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(barnabas("topic", "describe", topic, "--json").out)[0]
    return result


def test_altered_configs_are_described_until_they_are_reset(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    shown = barnabas("topic", "alter", topic, "-c", "retention.ms=1000")
    assert shown == (0, f"altered {topic}: retention.ms: 604800000 -> 1000\n", "")
    assert described(barnabas, topic)["configs"] == {"retention.ms": "1000"}
    shown = barnabas("topic", "alter", topic, "--reset", "retention.ms")
    assert shown == (0, f"altered {topic}: retention.ms: 1000 -> 604800000 (default)\n", "")
    assert described(barnabas, topic)["configs"] == {}


def test_reset_of_an_unset_value_prints_the_same_as_config_reset(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    shown = barnabas("topic", "alter", topic, "--reset", "retention.ms")
    assert shown == (0, f"altered {topic}: retention.ms: it was not set\n", "")
    assert barnabas("config", "reset", f"topic/{topic}", "retention.ms").out == "reset retention.ms: it was not set\n"


def test_programs_get_the_values_before_and_after(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    shown = json.loads(barnabas("topic", "alter", topic, "-c", "retention.ms=1000", "--json").out)
    changes = [{"name": "retention.ms", "before": "604800000", "after": "1000"}]
    assert shown == [{"name": topic, "result": "altered", "changes": changes}]


def test_partitions_are_added_up_to_a_total(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    shown = barnabas("topic", "alter", topic, "--partitions", "4", "-c", "retention.ms=1000")
    assert shown == (0, f"altered {topic}: partitions: 1 -> 4, retention.ms: 604800000 -> 1000\n", "")
    assert len(described(barnabas, topic)["partitions"]) == 4


def test_a_dry_run_alters_nothing(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    shown = barnabas("topic", "alter", topic, "-p", "4", "-c", "retention.ms=1", "--dry-run")
    assert shown == (0, f"would alter {topic}: partitions: 1 -> 4, retention.ms: 604800000 -> 1\n", "")
    assert described(barnabas, topic)["configs"] == {}
    assert len(described(barnabas, topic)["partitions"]) == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["-c", "retention.ms=soon"], "Not a number of type LONG"),
        (["-c", "nope=1"], "nope"),
        (["--reset", "nonsense"], "there is no setting 'nonsense'"),
        (["--reset", "retentoin.ms"], "there is no setting 'retentoin.ms'; did you mean retention.ms?"),
        (["-p", "1"], "Topic already has 1 partition(s)."),
        (["-p", "4", "-c", "nope=1"], "nope"),
        (["-p", "4", "--reset", "nope"], "there is no setting 'nope'"),
        (["-p", "1", "-c", "retention.ms=1"], "Topic already has 1 partition(s)."),
    ],
)
def test_refused_alteration_is_not_reported_as_done(
    barnabas: Command, topic: str, options: list[str], complaint: str
) -> None:
    barnabas("topic", "create", topic)
    for dry in ([], ["--dry-run"]):
        status, out, err = barnabas("topic", "alter", topic, *options, *dry)
        assert (status, out) == (1, "")
        assert err.startswith(f"barnabas topic alter: {topic}: ")
        assert complaint in err
    assert described(barnabas, topic)["configs"] == {}
    assert len(described(barnabas, topic)["partitions"]) == 1


@pytest.mark.parametrize(
    ("options", "note"),
    [(["-c", "retention.ms=1"], ": retention.ms: 604800000 -> 1"), (["-p", "2"], ": partitions: 1 -> 2")],
)
def test_a_topic_that_does_not_exist_is_named_and_the_others_are_altered(
    barnabas: Command, topic: str, options: list[str], note: str
) -> None:
    barnabas("topic", "create", topic)
    status, out, err = barnabas("topic", "alter", "missing", topic, *options)
    assert (status, out) == (1, f"altered {topic}{note}\n")
    assert err.startswith("barnabas topic alter: missing: ")
    assert len(err.splitlines()) == 1


def test_alter_needs_a_change(call: Command) -> None:
    status, _, err = call("topic", "alter", "t")
    assert status == 2
    assert "nothing to alter: give --partitions, --config or --reset" in err


def test_a_setting_that_is_given_twice_is_a_wrong_call(call: Command) -> None:
    for command in ("create", "alter"):
        status, out, err = call("topic", command, "t", "-c", "retention.ms=1", "-c", "retention.ms=2")
        assert (status, out) == (2, "")
        assert "retention.ms is given more than once" in err
