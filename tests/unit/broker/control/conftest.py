from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.broker.control.controlled_broker import ControlledBroker


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ControlledBroker]]:
    """Start a broker with the control API and the given settings; stop it at the end."""
    started: list[ControlledBroker] = []

    def start(directory: str = "", **settings: str) -> ControlledBroker:
        broker = ControlledBroker(directory or str(tmp_path / "data"), **settings)
        broker.wait(broker.start())
        started.append(broker)
        return broker

    yield start
    for broker in started:
        broker.wait(broker.stop())
        broker.loop.close()


@pytest.fixture
def broker(start: Callable[..., ControlledBroker]) -> ControlledBroker:
    """Start a broker with the control API."""
    return start()
