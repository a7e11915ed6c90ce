"""The server's limits from the broker configs."""

from __future__ import annotations

import pytest

from broker.metadata.dynamic_config import DynamicConfig
from broker.network.connection_limits import Limits, server_limits
from broker.settings import Option, check_settings
from controller.image import MetadataImage, ResourceType
from controller.image_builder import apply_records
from protocol.records.metadata import ConfigRecord
from protocol.request_memory import UNLIMITED


def limits(altered: dict[str, str] | None = None, **settings: str) -> Limits:
    named = {name.replace("_", "."): Option(text, "test") for name, text in settings.items()}
    checked = check_settings(named)
    dynamic_config = DynamicConfig(checked)
    records = [
        ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=name, value=value)
        for name, value in (altered or {}).items()
    ]
    dynamic_config.load(apply_records(MetadataImage(cluster_id=""), records, offset=1, epoch=1))
    return server_limits(checked, dynamic_config, max_descriptors=77)


def test_initial_limits_come_from_the_configs() -> None:
    found = limits(socket_request_max_bytes="1000", connections_max_idle_ms="5000", queued_max_request_bytes="2000")
    assert (found.max_request_bytes, found.max_idle_s, found.max_queued_bytes) == (1000, 5.0, 2000)
    assert found.connections.max_descriptors == 77


@pytest.mark.parametrize(("queued", "expected"), [("-1", 32 << 20), ("2000", 2000), (str(1 << 30), 32 << 20)])
def test_memory_before_the_authentication_is_always_limited(queued: str, expected: int) -> None:
    assert limits(queued_max_request_bytes=queued).max_unauthenticated_bytes == expected


def test_request_memory_is_unbounded_by_default() -> None:
    assert limits().max_queued_bytes == UNLIMITED


def test_altered_connection_limits_take_effect() -> None:
    found = limits(
        {"max.connections": "9", "max.connections.per.ip": "3", "max.connections.per.ip.overrides": "127.0.0.1:2"},
        max_connections="5",
    ).connections
    assert (found.max_connections, found.max_connections_per_ip) == (9, 3)
    assert list(found.overrides.values()) == [2]


def test_a_listener_may_have_a_limit_of_its_own() -> None:
    found = limits({"listener.name.plaintext.max.connections": "4"}, max_connections="5").connections
    assert found.per_listener == {"PLAINTEXT": 4}
