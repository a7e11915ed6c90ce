from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from errno import EIO
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Never

import pytest

from broker.log_dirs.maintenance import (
    DiskSpaceMonitor,
    LogMaintenance,
    apply_retention,
    expire_producers,
    sync,
    sync_all,
    sync_interval_s,
)
from protocol.errors import InvariantError, KafkaError
from protocol.record_batch import build_batch
from storage.log.config import LogConfig
from storage.log_manager import LogManager
from tests.disks import FaultyDisk
from tests.logs import NOW_MS, TOPIC_ID, fill
from tests.unit.broker.conftest import Run
from tests.unit.broker.held_threads import HeldThreads
from tests.unit.broker.node import Node, VirtualLoop


def test_failed_task_is_logged_and_repeated(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        times, third = 0, asyncio.Event()

        async def chore() -> Never:
            nonlocal times
            times += 1
            if times == 3:
                third.set()
            raise OSError("no luck")

        chores = LogMaintenance(asyncio.get_running_loop())
        chores.every(0.0, chore)
        await third.wait()
        await chores.stop()

    with caplog.at_level(logging.ERROR):
        run(body())
    assert sum("A maintenance task failed" in record.getMessage() for record in caplog.records) >= 2


def test_first_run_of_task_is_after_initial_delay_or_shorter_interval() -> None:
    loop = VirtualLoop()
    times: dict[str, list[Any]] = {"sooner": [], "shorter": []}

    def chore(name: str) -> Callable[[], Awaitable[None]]:
        async def note() -> None:
            times[name].append(loop.time())

        return note

    async def body() -> None:
        chores = LogMaintenance(loop)
        chores.every(10.0, chore("sooner"), first_s=3.0)
        chores.every(2.0, chore("shorter"), first_s=3.0)
        await asyncio.sleep(13.5)
        await chores.stop()

    loop.run_until_complete(body())
    loop.close()
    assert times == {"sooner": [3.0, 13.0], "shorter": [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]}


def test_sync_interval_is_smallest_flush_ms_up_to_one_second() -> None:
    assert [sync_interval_s(wanted_ms) for wanted_ms in (2**63 - 1, 1000, 100, 0)] == [1.0, 1.0, 0.1, 0.001]


def test_producers_expire(run: Run, tmp_path: Path) -> None:
    manager = LogManager(FaultyDisk(), [str(tmp_path)], LogConfig(), now_ms=lambda: NOW_MS, random=Random(1))
    manager.open()
    manager.format("cluster", 1)
    log = manager.create("t", TOPIC_ID, 0, LogConfig())
    records = build_batch([(None, b"v")], timestamp_ms=NOW_MS, producer_id=7, producer_epoch=0, base_sequence=0)
    log.append_as_leader(memoryview(records), 0, NOW_MS)
    run(expire_producers(manager, NOW_MS + 999, 1000))
    assert list(log.producers.producers) == [7]
    run(expire_producers(manager, NOW_MS + 1000, 1000))
    assert list(log.producers.producers) == []
    manager.close()


def test_retention_deletion_is_logged_once(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logs = LogManager(FaultyDisk(), [str(tmp_path)], LogConfig(), now_ms=lambda: NOW_MS, random=Random(1))
    logs.open()
    size_bytes = len(build_batch([(b"key", b"v" * 10)], timestamp_ms=NOW_MS))
    log = logs.create("t", TOPIC_ID, 0, LogConfig(segment_bytes=size_bytes, retention_bytes=size_bytes))
    fill(log, 3)
    with caplog.at_level(logging.INFO):
        run(apply_retention(logs, NOW_MS))
        run(apply_retention(logs, NOW_MS))
    assert [record.getMessage() for record in caplog.records if record.name == "broker.log_dirs.maintenance"] == [
        f"t-0: segments deleted: 2, offsets 0 to 1, {2 * size_bytes} bytes (2 by retention.bytes={size_bytes})"
    ]
    logs.close()


def test_a_broken_invariant_reaches_the_loops_exception_handler(run: Run) -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        reported = loop.create_future()
        loop.set_exception_handler(lambda _, context: reported.done() or reported.set_result(context["exception"]))  # type: ignore[func-returns-value]  # called for its effect

        async def chore() -> Never:
            raise InvariantError("the log would be corrupted")

        chores = LogMaintenance(loop)
        chores.every(0.0, chore)
        assert isinstance(await reported, InvariantError)
        await chores.stop()

    run(body())


def test_stop_cancels_running_task(run: Run) -> None:
    async def body() -> None:
        begun, never = asyncio.Event(), asyncio.Event()

        async def chore() -> None:
            begun.set()
            await never.wait()

        chores = LogMaintenance(asyncio.get_running_loop())
        chores.every(0.0, chore)
        await begun.wait()
        await chores.stop()

    run(body())


def test_stop_waits_for_running_sync_and_starts_no_other(node: Node, threads: HeldThreads) -> None:
    node.create("t", partitions=2, config=LogConfig(flush_ms=0))
    for index in range(2):
        node.append("t", index=index)
    chores = LogMaintenance(node.loop)
    chores.every(1.0, partial(sync, node.logs, node.loop, node.now_ms()))
    node.pass_time(1.5)
    stopped = node.loop.create_task(chores.stop())
    node.pass_time(1.0)
    assert (stopped.done(), len(threads.jobs)) == (False, 1)
    threads.let()
    node.wait(stopped)
    assert (threads.jobs, sorted(log.recovery_point for log in node.logs)) == ([], [0, 1])


def test_log_is_not_marked_synced_if_no_thread_can_be_started(
    node: Node, threads: HeldThreads, caplog: pytest.LogCaptureFixture
) -> None:
    threads.spent = True
    node.create("t", config=LogConfig(flush_ms=0))
    node.append("t")
    node.loop.run_until_complete(sync(node.logs, node.loop, node.now_ms()))
    assert node.logs.online == []
    assert "can't start new thread" in caplog.text


def test_stop_syncs_every_log_before_closing(run: Run, tmp_path: Path) -> None:
    disk = FaultyDisk()
    logs = LogManager(disk, [str(tmp_path)], LogConfig(), now_ms=lambda: NOW_MS, random=Random(1))
    logs.open()
    for partition in range(70):
        fill(logs.create("topic", TOPIC_ID, partition, LogConfig()), 1)

    async def body() -> None:
        await sync_all(logs, asyncio.get_running_loop())

    run(body())
    assert disk.called("sync").count(f"{0:020d}.log") == 70
    disk.calls.clear()
    logs.close()
    assert disk.called("sync") == []
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_full_directory_is_logged_once_and_again_when_it_has_space(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    logs = LogManager(disk, [str(tmp_path)], LogConfig(), now_ms=lambda: NOW_MS, random=Random(1))
    logs.open()
    log = logs.create("topic", TOPIC_ID, 0, LogConfig())
    watch = DiskSpaceMonitor(logs)
    assert watch.check(0.0)
    disk.full = True
    assert not watch.check(0.0)  # Before any write fails.
    for second in range(20):
        with suppress(KafkaError):
            fill(log, 1)
        assert not watch.check(float(second))
    disk.full = False
    assert not watch.check(19.5)
    assert watch.check(60.0)
    assert [record.getMessage() for record in caplog.records] == [
        f"Disk nearly full: 0 B free in {tmp_path}. New topics are refused, as are records and settings that do not "
        "fit. Delete or trim topics, or lower retention.ms",
        f"There is space in {tmp_path} again",
    ]
    logs.close()


@pytest.mark.parametrize("full", [False, True])
def test_a_directory_whose_space_cannot_be_read_is_logged_as_failed_not_as_full(
    full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    logs = LogManager(disk, [str(tmp_path)], LogConfig(), now_ms=lambda: NOW_MS, random=Random(1))
    logs.open()
    watch = DiskSpaceMonitor(logs)
    disk.full = full
    watch.check(0.0)
    caplog.clear()

    def fail(path: str) -> Never:
        raise OSError(EIO, "Input/output error", path)

    monkeypatch.setattr(disk, "free_bytes", fail)
    watch.check(60.0)
    watch.check(61.0)
    [record] = caplog.records
    assert record.getMessage().startswith(f"log directory {tmp_path} failed: {tmp_path}: Input/output error; ")
    logs.close()
