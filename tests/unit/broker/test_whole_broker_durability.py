"""When a whole broker syncs: flush.messages, flush.ms and barnabas.fsync, of the broker or a topic, altered live."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from storage.log_directory import RECOVERY_POINTS
from tests.disks import FaultyDisk
from tests.unit.broker.whole_broker import WholeBroker

TOPIC, BROKER = 2, 4


class Whole(WholeBroker):
    """A broker with one topic, on a disk that counts syncs."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.disk = FaultyDisk()
        super().__init__(str(directory), self.disk, **settings)
        self.wait(self.start())
        self.wait(self.node.create_topic("t", 1))

    async def produce(self, acks: int = -1) -> ErrorCode:
        partition = ProduceRequest.Topic.Partition(index=0, records=build_batch([(None, b"value")]))
        data = [ProduceRequest.Topic(name="t", partition_data=[partition])]
        answer = await self.query(ApiKey.PRODUCE, 9, acks=acks, timeout_ms=10_000, topic_data=data)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def synced(self) -> int:
        """Produce a record; return the number of syncs of its segment before the response."""
        self.disk.calls.clear()
        assert self.wait(self.produce()) == ErrorCode.NONE
        return self.disk.called("sync").count("00000000000000000000.log")

    def alter(self, kind: int, name: str, **values: str) -> None:
        """Set configurations, with _ for each dot in their names; return when the syncs that they cause are done.

        On `barnabas.fsync=always` the broker syncs earlier appends, in a thread.
        """
        altered = IncrementalAlterConfigsRequest.Resource.Config
        configs = [altered(name=key.replace("_", "."), config_operation=0, value=text) for key, text in values.items()]
        resource = IncrementalAlterConfigsRequest.Resource(resource_type=kind, resource_name=name, configs=configs)
        answer = self.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
        assert answer.responses[0].error_code == ErrorCode.NONE
        self.wait(self.broker.replicas.group_commit.drain())

    def end(self) -> bool:
        clean: bool = self.wait(self.stop())
        self.loop.close()
        return clean


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Whole]]:
    running: list[Whole] = []

    def start(**settings: str) -> Whole:
        running.append(Whole(tmp_path / "data", **settings))
        return running[-1]

    yield start
    for whole in running:
        if not whole.loop.is_closed():
            whole.end()


def test_produce_does_not_wait_for_sync_by_default(start: Callable[..., Whole]) -> None:
    assert start().synced() == 0


def test_topic_config_overrides_brokers_flush_messages_and_fsync(start: Callable[..., Whole]) -> None:
    whole = start(log_flush_interval_messages="1")
    assert whole.synced() == 1
    whole.alter(TOPIC, "t", flush_messages="1000")
    assert whole.synced() == 0
    whole.alter(BROKER, "", barnabas_fsync="always")
    assert whole.synced() == 1
    whole.alter(TOPIC, "t", barnabas_fsync="flush")
    assert whole.synced() == 0


def test_flush_ms_syncs_in_background_task(start: Callable[..., Whole]) -> None:
    whole = start()
    assert whole.synced() == 0
    log = whole.broker.logs.get("t", 0)
    assert log is not None
    whole.wait(whole.node._tasks._sync())
    assert log.recovery_point == 0
    whole.alter(TOPIC, "t", flush_ms="0")
    whole.wait(whole.node._tasks._sync())
    assert log.recovery_point == 1


def test_concurrent_producers_share_syncs_and_are_acknowledged_once_synced(start: Callable[..., Whole]) -> None:
    whole = start(barnabas_fsync="always")

    async def all_at_once() -> list[ErrorCode]:
        return await asyncio.gather(*(whole.produce() for _ in range(40)))

    whole.disk.calls.clear()
    assert whole.wait(all_at_once()) == [ErrorCode.NONE] * 40
    assert 1 <= whole.disk.called("sync").count("00000000000000000000.log") < 40
    log = whole.broker.logs.get("t", 0)
    assert log is not None
    assert (log.recovery_point, log.high_watermark) == (40, 40)


def test_recovery_point_of_synced_records_is_checkpointed(start: Callable[..., Whole], tmp_path: Path) -> None:
    whole = start(barnabas_fsync="always", log_segment_bytes="1048576")
    whole.synced()
    log = whole.broker.logs.get("t", 0)
    assert log is not None
    log.roll(whole.broker.now_ms())
    whole.synced()
    whole.wait(whole.node._tasks._checkpoint(RECOVERY_POINTS))
    # Recovery always reads the active segment, for its indexes.
    [line] = [
        line for line in (tmp_path / "data" / RECOVERY_POINTS).read_text().splitlines() if line.startswith("t 0 ")
    ]
    assert int(line.split()[2]) in (1, 2)


def test_stop_syncs_everything(start: Callable[..., Whole]) -> None:
    whole = start(barnabas_fsync="always")
    whole.wait(whole.produce(acks=1))
    log = whole.broker.logs.get("t", 0)
    assert log is not None
    assert whole.end()
    assert log.recovery_point == 1


@pytest.mark.parametrize(("in_time", "code"), [(True, ErrorCode.NONE), (False, ErrorCode.REQUEST_TIMED_OUT)])
def test_stop_waits_for_pending_syncs_of_producers_for_limited_time(
    start: Callable[..., Whole], monkeypatch: pytest.MonkeyPatch, in_time: bool, code: ErrorCode
) -> None:
    whole = start(barnabas_fsync="always")
    begun, let = threading.Event(), threading.Event()
    check = whole.disk.check

    def held(kind: str, path: str) -> None:
        if kind == "sync" and "/t-0/" in path:
            begun.set()
            let.wait(30)
        check(kind, path)

    async def stopped() -> ErrorCode:
        answer = whole.loop.create_task(whole.produce())
        await whole.loop.run_in_executor(None, begun.wait, 30)
        stop = whole.loop.create_task(whole.stop())
        await asyncio.sleep(0)
        assert whole.node.shared.phase == "stopping"
        if not in_time:
            await answer
        let.set()
        assert await stop
        return await answer

    monkeypatch.setattr(whole.disk, "check", held)
    if not in_time:
        monkeypatch.setattr("broker.node._STOP_TIMEOUT_S", 1.0)
    assert whole.wait(stopped()) == code
    whole.loop.close()
