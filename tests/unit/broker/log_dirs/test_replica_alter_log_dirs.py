"""Replicas of a whole broker that move between its two log directories."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest
from storage.steps import finish
from tests.disks import FaultyDisk
from tests.unit.broker.jbod import Jbod


def test_replica_moves_and_metadata_is_updated(jbod: Jbod) -> None:
    target = jbod.other
    assert jbod.move(target.path) == [ErrorCode.NONE]
    jbod.until(lambda: jbod.assigned == target.directory_id)
    assert jbod.home is target
    jbod.fill(1)
    assert jbod.log.log_end_offset == 11
    assert jbod.broker.replicas.partition("t", 0).log is jbod.log


def test_future_replica_is_described_until_promoted(jbod: Jbod) -> None:
    jbod.throttle(0)
    home, other = Path(jbod.home.path).name, Path(jbod.other.path).name
    size = jbod.log.size_bytes
    jbod.move(jbod.other.path)
    jbod.until(lambda: jbod.described()[other][0][1] < 10)
    [(copied, lag, is_future)] = jbod.described()[other]
    assert is_future
    assert 0 < copied < size
    assert lag == 10 - copied * 10 // size
    assert jbod.described()[home] == [(size, 0, False)]
    jbod.throttle(None)
    jbod.until(lambda: jbod.described()[other] == [(size, 0, False)])
    assert jbod.described()[home] == []


def test_move_is_throttled(jbod: Jbod) -> None:
    jbod.throttle(2_000_000)
    began = jbod.loop.time()
    jbod.move(jbod.other.path)
    jbod.until(lambda: not list(jbod.broker.logs.moves))
    # All steps but the last one wait.
    assert jbod.loop.time() - began > 0.1


def test_move_back_to_source_cancels_move(jbod: Jbod) -> None:
    jbod.throttle(0)
    home, other = jbod.home, jbod.other
    jbod.move(other.path)
    assert jbod.move(home.path) == [ErrorCode.NONE]
    assert jbod.described()[Path(other.path).name] == []
    assert jbod.home is home
    jbod.throttle(None)
    assert jbod.move(other.path) == [ErrorCode.NONE]
    jbod.until(lambda: jbod.assigned == other.directory_id)


def test_interrupted_move_restarts_after_next_start(jbod: Jbod, start_jbod: Callable[[], Jbod]) -> None:
    jbod.throttle(0)
    target = jbod.other.directory_id
    jbod.move(jbod.other.path)
    jbod.end()
    again = start_jbod()
    assert again.assigned != target
    again.throttle(None)
    again.until(lambda: again.assigned == target)
    assert (again.home.directory_id, again.log.log_end_offset) == (target, 10)


def test_metadata_is_updated_at_next_start_at_the_latest(jbod: Jbod, start_jbod: Callable[[], Jbod]) -> None:
    logs = jbod.broker.logs
    move = logs.moves.begin(jbod.log, jbod.other)
    assert move is not None
    finish(logs.moves.steps(move))
    target = jbod.home.directory_id
    assert jbod.assigned != target
    jbod.end()
    again = start_jbod()
    assert (again.assigned, again.home.directory_id) == (target, target)


def test_full_target_dir_ends_move_with_one_log_line(
    jbod: Jbod, faulty_disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    home = jbod.home
    faulty_disk.arm("pwrite", errno.ENOSPC, after=2)
    with caplog.at_level(logging.WARNING, "broker.moves"):
        jbod.move(jbod.other.path)
        jbod.until(lambda: not list(jbod.broker.logs.moves))
    [line] = [record for record in caplog.records if record.name == "broker.moves"]
    assert f"{jbod.other.path} is full" in line.getMessage()
    assert jbod.home is home
    jbod.fill(1)
    assert jbod.log.log_end_offset == 11


def test_failed_target_dir_leaves_log_in_source_dir(jbod: Jbod, faulty_disk: FaultyDisk) -> None:
    home = jbod.home
    faulty_disk.arm("pwrite", errno.EIO, after=2)
    jbod.move(jbod.other.path)
    jbod.until(lambda: not list(jbod.broker.logs.moves))
    assert jbod.home is home
    jbod.fill(1)
    assert home.failure is None
    assert jbod.move(home.path) == [ErrorCode.NONE]
    assert jbod.move(jbod.other.path) == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_cold_records_are_read_in_thread_during_move(jbod: Jbod, faulty_disk: FaultyDisk) -> None:
    faulty_disk.cold = True
    target = jbod.other
    jbod.move(target.path)
    jbod.until(lambda: jbod.assigned == target.directory_id)
    assert jbod.log.log_end_offset == 10


def test_failed_read_ends_move(jbod: Jbod, faulty_disk: FaultyDisk, caplog: pytest.LogCaptureFixture) -> None:
    home = jbod.home
    faulty_disk.cold = True
    faulty_disk.arm("pread", errno.EIO, after=1)
    with caplog.at_level(logging.WARNING, "broker.moves"):
        jbod.move(jbod.other.path)
        jbod.until(lambda: not list(jbod.broker.logs.moves))
    assert [record.levelname for record in caplog.records if record.name == "broker.moves"] == ["ERROR"]
    assert (jbod.home, home.failure is not None) == (home, True)


def test_topic_deletion_ends_move(jbod: Jbod, tmp_path: Path) -> None:
    jbod.throttle(0)
    jbod.move(jbod.other.path)
    topic = DeleteTopicsRequest.Topic(name="t", topic_id=bytes(16))
    [answer] = jbod.call(ApiKey.DELETE_TOPICS, 6, topics=[topic], topic_names=[], timeout_ms=30_000).responses
    assert answer.error_code == 0
    assert not list(jbod.broker.logs.moves)
    assert not [path for path in tmp_path.glob("*/t-0*") if not path.name.endswith("-delete")]
    jbod.create()
    assert jbod.log.log_end_offset == 0
