from __future__ import annotations

import json

from tests.unit.barnabas.conftest import Command

LIMIT = "producer_byte_rate=1024"


def test_describe_shows_the_most_specific_quota_and_where_it_is_set(barnabas: Command, topic: str) -> None:
    client = ("--user", f"{topic}-user", "--client-id", topic)
    barnabas("quota", "set", *client, LIMIT)
    barnabas("quota", "set", "--client-id", topic, "producer_byte_rate=1", "consumer_byte_rate=2")
    barnabas("quota", "set", "--user", f"{topic}-user", "consumer_byte_rate=3")
    shown = {line.split()[0]: line.split(maxsplit=2)[1:] for line in barnabas("quota", "describe", *client).lines[1:]}
    assert shown == {
        "producer_byte_rate": ["1024", f"user {topic}-user, client-id {topic}"],
        "consumer_byte_rate": ["3", f"user {topic}-user"],
        "request_percentage": ["-", "-"],
        "controller_mutation_rate": ["-", "-"],
    }
    found = json.loads(barnabas("quota", "describe", "--client-id", topic, "--json").out)
    assert found[0] == {"quota": "producer_byte_rate", "value": 1.0, "set_on": {"client-id": topic}}


def test_the_default_of_addresses_applies_to_one_without_a_quota(barnabas: Command) -> None:
    barnabas("quota", "set", "--ip-defaults", "connection_creation_rate=1000000")
    barnabas("quota", "set", "--ip", "192.0.2.7", "connection_creation_rate=50")
    assert "50     ip 192.0.2.7" in barnabas("quota", "describe", "--ip", "192.0.2.7").out
    assert "1000000  any ip" in barnabas("quota", "describe", "--ip", "192.0.2.8").out
    assert barnabas("quota", "remove", "--ip-defaults").status == 0
    assert barnabas("quota", "remove", "--ip", "192.0.2.7").status == 0
