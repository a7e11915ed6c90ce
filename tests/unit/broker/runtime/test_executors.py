"""Flushes in threads: each completes or fails, also where no thread can be started."""

from __future__ import annotations

import asyncio

import pytest

from broker.runtime.executors import await_thread, sync_in_thread, thread_pool
from protocol.errors import KafkaError
from storage.log.flush import Flush
from tests.unit.broker.held_threads import HeldThreads, block_default_executor
from tests.unit.broker.node import Node


def begun(node: Node) -> list[Flush]:
    node.create("t", partitions=2)
    flushes = []
    for index in range(2):
        node.append("t", index=index)
        flush = node.partition("t", index).log.begin_flush(node.now_ms())
        assert flush is not None
        flushes.append(flush)
    return flushes


def test_one_thread_syncs_all_logs(node: Node, threads: HeldThreads) -> None:
    flushes = begun(node)
    synced = sync_in_thread(node.loop, flushes)
    assert not synced.done()
    threads.let()
    node.wait(synced)
    for flush in flushes:
        flush.finish()
    assert [node.partition("t", index).log.recovery_point for index in range(2)] == [1, 1]


def test_own_threads_run_while_default_executor_is_busy(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    block_default_executor(node.loop, monkeypatch)
    flushes = begun(node)
    node.wait(sync_in_thread(node.loop, flushes, thread_pool("sync")))
    for flush in flushes:
        flush.finish()
    assert [node.partition("t", index).log.recovery_point for index in range(2)] == [1, 1]


def test_flushes_fail_if_no_thread_can_be_started(node: Node, threads: HeldThreads) -> None:
    flushes = begun(node)
    threads.spent = True
    node.wait(sync_in_thread(node.loop, flushes))
    for flush in flushes:
        with pytest.raises(KafkaError, match="can't start new thread"):
            flush.finish()
    assert node.logs.online == []


def test_cancelled_caller_waits_for_running_thread(node: Node, threads: HeldThreads) -> None:
    waiting = node.loop.create_task(await_thread(sync_in_thread(node.loop, begun(node))))
    node.pass_time(0)
    waiting.cancel()
    node.pass_time(1)
    assert not waiting.done()
    threads.let()
    with pytest.raises(asyncio.CancelledError):
        node.wait(waiting)
