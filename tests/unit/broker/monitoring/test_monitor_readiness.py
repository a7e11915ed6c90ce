from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.monitoring.monitor import failed_directories, reasons_not_ready


@pytest.fixture
def broker() -> Any:
    directories = [SimpleNamespace(path=path, failure=None) for path in ("/a", "/b")]
    image = SimpleNamespace(brokers={1: SimpleNamespace(active=True)})
    return SimpleNamespace(
        phase="serving",
        settings=SimpleNamespace(node_id=1, is_broker=True),
        raft=SimpleNamespace(image=image),
        logs=SimpleNamespace(directories=directories),
    )


def test_serving_broker_is_ready(broker: Any) -> None:
    assert reasons_not_ready(broker) == []


@pytest.mark.parametrize("phase", ["starting", "stopping"])
def test_broker_is_not_ready_before_start_and_after_stop(broker: Any, phase: str) -> None:
    broker.phase = phase
    assert reasons_not_ready(broker) == [f"the broker is {phase}"]


def test_a_fenced_broker_is_not_ready(broker: Any) -> None:
    broker.raft.image.brokers[1].active = False
    assert reasons_not_ready(broker) == ["broker 1 is fenced"]
    broker.raft.image.brokers.clear()
    assert reasons_not_ready(broker) == ["broker 1 is fenced"]


def test_a_node_that_is_only_a_controller_is_ready_without_a_registered_broker(broker: Any) -> None:
    broker.raft.image.brokers.clear()
    broker.settings.is_broker = False
    assert reasons_not_ready(broker) == []


def test_broker_is_ready_while_one_log_directory_works(broker: Any) -> None:
    one, other = broker.logs.directories
    one.failure = OSError("broken")
    assert reasons_not_ready(broker) == []
    assert failed_directories(broker) == ["the data directory /a failed: broken"]
    other.failure = OSError("broken too")
    assert reasons_not_ready(broker) == [
        "the data directory /a failed: broken",
        "the data directory /b failed: broken too",
    ]
