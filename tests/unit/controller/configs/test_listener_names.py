"""Configurations with a listener prefix."""

from __future__ import annotations

import pytest

from controller.configs.listener_names import listener_prefix, without_listener


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("max.connections", "max.connections"),
        ("listener.name.external.max.connections", "max.connections"),
        ("listener.name.external.scram-sha-256.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.external", ""),
        ("listener.security.protocol.map", "listener.security.protocol.map"),
    ],
)
def test_base_config_of_a_listener_config(name: str, setting: str) -> None:
    assert without_listener(name) == setting


def test_listener_prefix_is_lowercase() -> None:
    assert without_listener(listener_prefix("EXTERNAL") + "max.connections") == "max.connections"
    assert listener_prefix("EXTERNAL") == "listener.name.external."
