"""Configurations of client metrics subscriptions."""

from __future__ import annotations

import pytest

from controller.configs.client_metrics import parse_match
from controller.configs.definition import ConfigError


def test_match_patterns_are_parsed_by_key() -> None:
    patterns = parse_match(["client_id = a.* ", "client_software_name=librdkafka"])
    assert {name: pattern.pattern for name, pattern in patterns.items()} == {
        "client_id": "a.*",
        "client_software_name": "librdkafka",
    }
    assert parse_match([]) == {}


@pytest.mark.parametrize("pair", ["client_id", "client_id=a=b", "who=a", "client_id=["])
def test_invalid_match_patterns_are_rejected(pair: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        parse_match([pair])
    assert str(wrong.value) == f"Illegal client matching pattern: {pair}"
