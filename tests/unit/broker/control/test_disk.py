"""A broker on a disk that a test makes slow, full or failing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.broker.control.controlled_broker import ControlledBroker


def write(broker: ControlledBroker, topic: str = "t") -> Any:
    return broker.post(f"/v1/topics/{topic}/records", records=[{"value": "v"}])


def test_a_full_disk_refuses_records_and_takes_them_once_it_has_space(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")
    assert broker.reply("PUT", "/v1/disk", fault="full").content == {"fault": "full", "operations": ["write"]}
    refused = write(broker)
    assert refused.status == 409
    assert "KAFKA_STORAGE_ERROR" in refused.message
    assert broker.reply("DELETE", "/v1/disk") == (200, {})
    broker.post("/v1/clock/advance", ms=60_000)
    assert write(broker).status == 200


def test_a_slow_disk_delays_each_write(broker: ControlledBroker) -> None:
    broker.post("/v1/topics", topic="t")
    broker.reply("PUT", "/v1/disk", fault="slow", delay_ms=60, operations=["write"])
    begun = broker.loop.time()
    assert write(broker).status == 200
    assert broker.loop.time() - begun >= 0.059
    assert broker.get("/v1/disk").content == {"fault": "slow", "operations": ["write"], "delay_ms": 60}


def test_a_failing_directory_is_offline_and_the_other_is_not(
    start: Callable[..., ControlledBroker], tmp_path: Path
) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    broker = start(f"{first},{second}")
    broker.post("/v1/topics", topic="t", partitions=2)
    broker.reply("PUT", "/v1/disk", fault="failing", operations=["write"], directory=second, count=1)
    outcomes = {
        index: broker.post("/v1/topics/t/records", records=[{"partition": index, "value": "v"}]).status
        for index in (0, 1)
    }
    assert sorted(outcomes.values()) == [200, 409]
    assert broker.get("/v1/disk").content["left"] == 0


@pytest.mark.parametrize("body", [{"fault": "slow"}, {"fault": "full", "delay_ms": 1}])
def test_a_delay_belongs_to_a_slow_disk(broker: ControlledBroker, body: dict[str, Any]) -> None:
    refused = broker.reply("PUT", "/v1/disk", **body)
    assert refused == (400, {"message": "delay_ms: it belongs to a slow disk, which needs it"})
    assert broker.get("/v1/disk").content == {}
