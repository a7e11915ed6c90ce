from __future__ import annotations

import json

from tests.unit.barnabas.conftest import Command


def test_set_values_are_listed_or_with_all_every_value(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic, "-c", "retention.ms=1")
    shown = [line.split() for line in barnabas("config", "list", f"topic/{topic}").lines]
    assert shown == [["NAME", "VALUE", "SOURCE"], ["retention.ms", "1", "topic"]]
    everything = json.loads(barnabas("config", "list", f"topic/{topic}", "--all", "--json").out)
    assert {"cleanup.policy", "retention.ms"} <= {setting["name"] for setting in everything}


def test_resources_with_settings_are_listed(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic, f"{topic}-2", "-c", "retention.ms=1")
    barnabas("topic", "create", f"{topic}-plain")
    rows = {row["resource"]: row["settings"] for row in json.loads(barnabas("config", "list", "--json").out)}
    assert rows[f"topic/{topic}"] == rows[f"topic/{topic}-2"] == 1
    assert f"topic/{topic}-plain" not in rows
    assert f"topic/{topic}-plain" in barnabas("config", "list", "--all").out


def test_a_topic_that_does_not_exist_is_named(barnabas: Command) -> None:
    status, out, err = barnabas("config", "list", "topic/missing")
    assert (status, out) == (1, "")
    assert err.startswith("barnabas config list: topic/missing: ")


def test_a_broker_that_does_not_exist_is_named(barnabas: Command) -> None:
    assert barnabas("config", "list", "broker/77") == (1, "", "barnabas config list: there is no broker 77\n")
