from __future__ import annotations

import json

from tests.unit.barnabas.conftest import Command


def test_one_value_is_printed_alone_and_several_with_their_names(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic, "-c", "retention.ms=1")
    assert barnabas("config", "get", f"topic/{topic}", "retention.ms") == (0, "1\n", "")
    shown = barnabas("config", "get", f"topic/{topic}", "retention.ms", "cleanup.policy")
    assert shown.lines == ["retention.ms=1", "cleanup.policy=delete"]


def test_all_details_of_a_setting_are_printed(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic, "-c", "segment.bytes=2097152")
    shown = barnabas("config", "get", f"topic/{topic}", "segment.bytes", "--verbose").out
    assert "SOURCE     topic\nTYPE       int\n" in shown
    assert "log.segment.bytes  1073741824  default" in shown
    (found,) = json.loads(barnabas("config", "get", f"topic/{topic}", "segment.bytes", "--json").out)
    assert found["documentation"]


def test_unknown_setting_is_named(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    assert barnabas("config", "get", f"topic/{topic}", "retentoin.ms") == (
        1,
        "",
        f"barnabas config get: topic/{topic} has no setting 'retentoin.ms'; did you mean retention.ms?\n",
    )
