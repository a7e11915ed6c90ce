"""AlterReplicaLogDirs, sent by a client."""

from __future__ import annotations

import errno

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.unit.broker.jbod import Jbod

_Dir = AlterReplicaLogDirsRequest.Dir
_Resource = IncrementalAlterConfigsRequest.Resource


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_moves_in_every_version(jbod: Jbod, version: int) -> None:
    target = jbod.other
    topics = [_Dir.Topic(name="t", partitions=[0])]
    response = jbod.call(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=[_Dir(path=target.path, topics=topics)])
    [result] = response.results
    assert (result.topic_name, [(one.partition_index, one.error_code) for one in result.partitions]) == ("t", [(0, 0)])
    jbod.until(lambda: jbod.home is target)


def test_move_to_the_current_directory_does_nothing(jbod: Jbod) -> None:
    assert jbod.move(jbod.home.path) == [ErrorCode.NONE]
    assert not list(jbod.broker.logs.moves)


@pytest.mark.parametrize("path", ["/elsewhere", "", "second"])
def test_unknown_directory_is_refused(jbod: Jbod, path: str) -> None:
    assert jbod.move(path) == [ErrorCode.LOG_DIR_NOT_FOUND]


def test_unknown_partitions_get_separate_errors(jbod: Jbod) -> None:
    codes = jbod.move(jbod.home.path, ("missing", 0), ("t", 1), ("t", 0))
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2 + [ErrorCode.NONE]


def test_topic_name_too_long_for_a_future_replica_is_refused(jbod: Jbod) -> None:
    assert jbod.move(jbod.home.path, ("t" * 249, 0)) == [ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_directory_that_failed_is_refused(jbod: Jbod) -> None:
    jbod.other.give_up(OSError(errno.EIO, "broken"))
    assert jbod.move(jbod.other.path) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert jbod.move(jbod.home.path) == [ErrorCode.NONE]


def test_a_cordoned_directory_is_refused(jbod: Jbod) -> None:
    cordon = _Resource.Config(name="cordoned.log.dirs", config_operation=0, value=jbod.other.path)
    resource = _Resource(resource_type=4, resource_name="1", configs=[cordon])
    jbod.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    jbod.until(lambda: jbod.broker.image.brokers[1].cordoned_directories)
    assert jbod.move(jbod.other.path) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]


def test_last_directory_of_a_repeated_partition_wins(jbod: Jbod) -> None:
    topics = [_Dir.Topic(name="t", partitions=[0])]
    dirs = [_Dir(path=jbod.other.path, topics=topics), _Dir(path=jbod.home.path, topics=topics)]
    [result] = jbod.call(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=dirs).results
    assert [one.error_code for one in result.partitions] == [ErrorCode.NONE]
    assert not list(jbod.broker.logs.moves)


def test_unexpected_exception_fails_only_its_partition(
    jbod: Jbod, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def begin(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(jbod.broker.moves, "begin", begin)
    codes = jbod.move(jbod.other.path, ("t", 0), ("t", 1))
    assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert "Moving t-0 failed" in caplog.text
