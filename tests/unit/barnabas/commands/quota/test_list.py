from __future__ import annotations

import json

from tests.unit.barnabas.conftest import Command


def test_quotas_of_an_entity_are_listed_with_those_of_its_combinations(barnabas: Command, topic: str) -> None:
    barnabas("quota", "set", "--user", topic, "request_percentage=12.5")
    barnabas("quota", "set", "--user", topic, "--client-defaults", "consumer_byte_rate=7")
    barnabas("quota", "set", "--user", f"{topic}-2", "consumer_byte_rate=8")
    assert (
        barnabas("quota", "list", "--user", topic, "--json").out
        == json.dumps(
            [
                {"entity": {"user": topic}, "quota": "request_percentage", "value": 12.5},
                {"entity": {"user": topic, "client-id": None}, "quota": "consumer_byte_rate", "value": 7.0},
            ],
            indent=2,
        )
        + "\n"
    )
    assert len(barnabas("quota", "list", "--user", topic, "--client-id-defaults").lines) == 2
    everything = barnabas("quota", "ls").out
    assert f"user {topic}, any client-id" in everything
    assert f"user {topic}-2" in everything
