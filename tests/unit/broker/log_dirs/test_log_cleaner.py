"""The log cleaner in virtual time, without threads: its pauses follow the loop's clock."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.log_dirs.log_cleaner import LogCleaner, Throttle
from storage.disk import OsDisk
from storage.log.log import Log
from storage.log_manager import LogManager
from tests.compacted import COMPACTED, offsets, put
from tests.logs import NOW_MS, TOPIC_ID
from tests.unit.broker.held_threads import HeldThreads
from tests.unit.broker.node import VirtualLoop

SETTINGS: dict[str, Any] = {
    "log.cleaner.dedupe.buffer.size": 1 << 20,
    "log.cleaner.io.buffer.load.factor": 0.9,
    "log.cleaner.io.buffer.size": 8192,
    "log.cleaner.backoff.ms": 15_000,
    "log.cleaner.io.max.bytes.per.second": 1.7976931348623157e308,
}


class Loop(VirtualLoop):
    """Runs executor jobs inline."""

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        done = self.create_future()
        done.set_result(func(*args))
        return done


class Node:
    """Logs, and a loop with a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.loop = Loop()
        self.set_back_ms = 0
        self.logs = LogManager(OsDisk(), [str(folder)], COMPACTED, now_ms=self.now_ms, random=Random(1))
        self.logs.open()
        self.logs.format("cluster", 1)

    def now_ms(self) -> int:
        return NOW_MS + self.set_back_ms + round(self.loop.time() * 1000)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.logs.close()
    node.loop.close()


def filled(node: Node, topic: str, batches: int = 50) -> Log:
    log = node.logs.create(topic, TOPIC_ID, 0, COMPACTED)
    for number in range(batches):
        put(log, (b"%d" % (number % 5), b"%d" % number))
    log.roll(NOW_MS)
    return log


def cleaner(node: Node, **changed: Any) -> LogCleaner:
    settings = SETTINGS | {"log.cleaner." + name: value for name, value in changed.items()}
    return LogCleaner(OsDisk(), node.logs, settings.__getitem__, node.loop, node.now_ms)


def test_all_due_logs_are_cleaned(node: Node) -> None:
    logs = [filled(node, topic) for topic in "abc"]
    at_work = cleaner(node)
    node.loop.run_until_complete(at_work.run())
    assert [offsets(log) for log in logs] == [[45, 46, 47, 48, 49]] * 3
    assert (at_work.passes, at_work.uncleanable_count) == (3, 0)
    assert at_work.bytes_read > at_work.bytes_written > 0


def test_clients_are_served_during_cleaning(node: Node) -> None:
    log = filled(node, "a")

    async def both() -> int:
        turns = 0
        work = asyncio.ensure_future(cleaner(node).run())
        while turns < 10 and not work.done():
            put(log, (b"new", b"x"))
            turns += 1
            await asyncio.sleep(0)
        assert not work.done()
        await work
        return turns

    turns = node.loop.run_until_complete(both())
    assert turns == 10
    assert offsets(log)[:5] == [45, 46, 47, 48, 49]
    assert log.log_end_offset == 50 + turns


def test_cleaner_io_is_throttled(node: Node) -> None:
    filled(node, "a")
    at_work = cleaner(node, **{"io.max.bytes.per.second": 1000.0})
    began = node.loop.time()
    node.loop.run_until_complete(at_work.run())
    used = at_work.bytes_read + at_work.bytes_written
    assert node.loop.time() - began == pytest.approx(used / 1000, abs=0.2)


def test_stop_during_cleaning_leaves_log_intact_without_temporary_files(node: Node) -> None:
    log = filled(node, "a")

    async def stopped() -> None:
        work = asyncio.ensure_future(cleaner(node, **{"io.max.bytes.per.second": 1000.0}).run())
        await asyncio.sleep(7)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    node.loop.run_until_complete(stopped())
    assert {offset for offset in offsets(log) if offset >= 45} == {45, 46, 47, 48, 49}
    assert not [name for name in OsDisk().list_dir(log.directory) if name.endswith((".cleaned", ".swap"))]


def test_cleaner_stop_waits_for_log_sync(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(node, "a")
    threads = HeldThreads(node.loop)
    monkeypatch.setattr(node.loop, "run_in_executor", threads.run)

    async def stopped() -> None:
        work = asyncio.ensure_future(cleaner(node).run())
        await asyncio.sleep(1)
        work.cancel()
        await asyncio.sleep(1)
        assert (work.done(), log.recovery_point) == (False, 0)
        threads.let()
        await asyncio.gather(work, return_exceptions=True)

    node.loop.run_until_complete(stopped())
    assert (threads.jobs, log.recovery_point, len(offsets(log))) == ([], 50, 50)


def test_cleaned_log_is_not_marked_synced_if_no_thread_can_be_started(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(node, "a")
    threads = HeldThreads(node.loop)
    threads.spent = True
    monkeypatch.setattr(node.loop, "run_in_executor", threads.run)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        node.loop.run_until_complete(cleaner(node).run())
    assert (log.recovery_point, node.logs.online) == (0, [])


def test_uncleanable_log_is_logged(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    filled(node, "a").segments[0].file.pwrite(b"\xff", 65)
    at_work = cleaner(node)
    with caplog.at_level(logging.ERROR):
        node.loop.run_until_complete(at_work.run())
    [shown] = [record.getMessage() for record in caplog.records]
    assert shown.startswith("a-0 cannot be compacted: CORRUPT_MESSAGE")
    assert at_work.uncleanable_count == 1
    assert at_work.passes == 0


def test_cleaner_sleeps_when_no_log_is_due(node: Node) -> None:
    filled(node, "a")
    at_work = cleaner(node)
    node.loop.run_until_complete(at_work.run_if_due())
    later = filled(node, "b")
    node.loop.run_until_complete(asyncio.sleep(14))
    node.loop.run_until_complete(at_work.run_if_due())
    assert len(offsets(later)) == 50
    node.loop.run_until_complete(asyncio.sleep(2))
    node.loop.run_until_complete(at_work.run_if_due())
    assert len(offsets(later)) == 5


def test_wall_clock_set_back_does_not_delay_cleaner(node: Node) -> None:
    filled(node, "a")
    at_work = cleaner(node)
    node.loop.run_until_complete(at_work.run_if_due())
    later = filled(node, "b")
    node.set_back_ms = -3_600_000
    node.loop.run_until_complete(asyncio.sleep(16))
    node.loop.run_until_complete(at_work.run_if_due())
    assert len(offsets(later)) == 5


def test_cleaner_logs_size_before_and_after(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    log = filled(node, "one")
    before = log.size_bytes
    with caplog.at_level(logging.INFO, "broker.log_dirs.log_cleaner"):
        node.loop.run_until_complete(cleaner(node).run())
    assert f"Compacted one-0 up to offset 50: {before} bytes before, {log.size_bytes} now" in caplog.messages


def test_use_above_the_rate_is_delayed() -> None:
    throttle = Throttle(1000, now_s=5)
    assert throttle.use(500, now_s=5) == 0.5
    assert throttle.use(500, now_s=5.5) == 0.5


def test_idle_time_saves_up_at_most_100_ms() -> None:
    throttle = Throttle(1000, now_s=0)
    assert throttle.use(100, now_s=60) == 0
    assert throttle.use(100, now_s=60) == pytest.approx(0.1)


def test_a_new_rate_counts_from_the_next_use_on() -> None:
    throttle = Throttle(1000, now_s=0)
    throttle.use(1000, now_s=0)
    throttle.bytes_per_s = 10_000
    assert throttle.use(0, now_s=0) == pytest.approx(0.1)


def test_no_limit_means_no_delay() -> None:
    assert Throttle(1.7976931348623157e308, now_s=0).use(1 << 40, now_s=100) == 0
