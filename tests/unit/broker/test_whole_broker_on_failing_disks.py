"""Failing disks under a whole broker: acknowledged records stay, others are refused, and the log names the place."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.log_dirs.ownership import CannotStart
from controller.image import NO_LEADER
from protocol.api import ApiKey
from protocol.errors import ErrorCode, InvariantError
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.produce import ProduceRequest
from protocol.primitives import uuid_text
from protocol.record_batch import build_batch, iter_records
from storage.checkpoint_files import CHECKPOINTS
from tests.disks import FaultyDisk
from tests.typed import present
from tests.unit.broker.whole_broker import WholeBroker


@pytest.fixture(autouse=True)
def capture_all_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def start(tmp_path: Path, disk: FaultyDisk) -> Iterator[Callable[..., WholeBroker]]:
    """Start brokers on two directories, the metadata in the first; stop those still running at the end."""
    running = []

    def start(**settings: str) -> WholeBroker:
        directories = ",".join(str(tmp_path / name) for name in ("first", "second"))
        whole = WholeBroker(directories, disk, **settings or {"log_flush_interval_messages": "1"})
        running.append(whole)
        whole.wait(whole.start())
        return whole

    yield start
    for whole in running:
        if not whole.loop.is_closed():
            whole.wait(whole.stop())
            whole.loop.close()


@pytest.fixture
def whole(start: Callable[..., WholeBroker]) -> WholeBroker:
    """Return a broker with a topic in each of its directories, that syncs each record."""
    return filled(start())


def filled(made: WholeBroker) -> WholeBroker:
    wanted = dict.fromkeys(made.broker.logs.directories)
    for number in range(20):
        if not wanted:
            break
        made.wait(made.node.create_topic(f"candidate-{number}", 1))
        log = made.broker.logs.get(f"candidate-{number}", 0)
        if made.broker.logs.directory_of(present(log)) in wanted:
            del wanted[made.broker.logs.directory_of(present(log))]
    return made


def in_directory(whole: WholeBroker, name: str) -> str:
    """Return a topic in the directory of this name."""
    logs = whole.broker.logs
    return next(log.topic for log in logs if logs.directory_of(log).path.endswith(name))


def produce(whole: WholeBroker, topic: str, value: bytes) -> ErrorCode:
    partition = ProduceRequest.Topic.Partition(index=0, records=build_batch([(None, value)]))
    data = [ProduceRequest.Topic(name=topic, partition_data=[partition])]
    answer = whole.call(ApiKey.PRODUCE, 9, acks=-1, timeout_ms=1000, topic_data=data)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def read(whole: WholeBroker, topic: str) -> Any:
    """Return the values in a topic, or the error code."""
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1)
    values: list[Any] = []
    offset = 0
    while True:
        partition.fetch_offset = offset
        topics = [FetchRequest.Topic(topic=topic, partitions=[partition])]
        (found,) = whole.call(ApiKey.FETCH, 11, max_wait_ms=0, min_bytes=0, topics=topics).responses[0].partitions
        if found.error_code:
            return ErrorCode(found.error_code)
        if not found.records:
            return values
        values += [record.value for record in iter_records(found.records)]
        offset += 1


def test_a_failed_fsync_takes_its_directory_offline_and_no_other(
    whole: WholeBroker, start: Callable[..., WholeBroker], disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    broken, healthy = in_directory(whole, "second"), in_directory(whole, "first")
    for topic in (broken, healthy):
        assert produce(whole, topic, b"kept") == ErrorCode.NONE
    disk.arm("sync")
    assert produce(whole, broken, b"lost") == ErrorCode.KAFKA_STORAGE_ERROR
    for _ in range(3):
        assert produce(whole, broken, b"never again") == ErrorCode.KAFKA_STORAGE_ERROR
    assert read(whole, broken) == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(whole, healthy, b"kept too") == ErrorCode.NONE
    assert read(whole, healthy) == [b"kept", b"kept too"]
    for _ in range(3):
        whole.wait(whole.node._tasks.check_disk_space())
    leaders = [present(whole.broker.image.partition(topic, 0)).leader for topic in (broken, healthy)]
    assert leaders == [NO_LEADER, whole.broker.node_id]
    failures = [record.getMessage() for record in caplog.records if "second failed" in record.getMessage()]
    assert len(failures) == 1
    in_second = sum(whole.broker.logs.directory_of(log).path.endswith("second") for log in whole.broker.logs)
    assert whole.broker.replicas.offline_count == in_second
    whole.wait(whole.node.create_topic("new", 4))
    new = [whole.broker.replicas.partition("new", index).log for index in range(4)]
    assert all(whole.broker.logs.directory_of(log).path.endswith("first") for log in new)
    assert not whole.wait(whole.stop())
    whole.loop.close()

    again = start()
    assert read(again, broken)[:1] == [b"kept"]
    assert read(again, healthy) == [b"kept", b"kept too"]


def directories(whole: WholeBroker) -> dict[str, tuple[ErrorCode, set[str]]]:
    """Return by directory name the error and the topics in DescribeLogDirs."""
    found = whole.call(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None).results
    return {
        os.path.basename(one.log_dir): (ErrorCode(one.error_code), {topic.name for topic in one.topics})
        for one in found
    }


def test_a_failed_shared_fsync_takes_its_directory_offline_and_no_other(
    start: Callable[..., WholeBroker], disk: FaultyDisk
) -> None:
    whole = filled(start(barnabas_fsync="always"))
    broken, healthy = in_directory(whole, "second"), in_directory(whole, "first")
    for topic in (broken, healthy):
        assert produce(whole, topic, b"kept") == ErrorCode.NONE
    disk.arm("sync")
    assert produce(whole, broken, b"lost") == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(whole, broken, b"never again") == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(whole, healthy, b"kept too") == ErrorCode.NONE
    assert read(whole, healthy) == [b"kept", b"kept too"]
    reported = directories(whole)
    assert reported["second"] == (ErrorCode.KAFKA_STORAGE_ERROR, set())
    assert reported["first"][0] == ErrorCode.NONE
    assert healthy in reported["first"][1]


def test_a_broker_stops_once_the_directory_of_its_metadata_has_failed(whole: WholeBroker, disk: FaultyDisk) -> None:
    failures = []
    whole.loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    disk.arm("sync")
    assert produce(whole, in_directory(whole, "first"), b"lost") == ErrorCode.KAFKA_STORAGE_ERROR
    whole.wait(whole.node._tasks.check_disk_space())
    assert [type(failure) for failure in failures] == [InvariantError]


def test_start_with_unwritable_log_is_refused_with_its_name_and_remedy(
    whole: WholeBroker, start: Callable[..., WholeBroker], tmp_path: Path, disk: FaultyDisk
) -> None:
    topic = in_directory(whole, "first")
    whole.wait(whole.stop())
    whole.loop.close()
    (tmp_path / "first" / ".kafka_cleanshutdown").unlink()
    disk.forbidden = f"{tmp_path}/first/{topic}-0/{0:020d}.log"
    with pytest.raises(CannotStart) as refused:
        start()
    assert str(refused.value) == (
        f"the data directory cannot be used: {disk.forbidden}: Permission denied; give this user write access to it "
        "(see ls -l and lsattr), or choose another directory"
    )


def test_broker_starts_without_unusable_directory(
    whole: WholeBroker, start: Callable[..., WholeBroker], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost, healthy = in_directory(whole, "second"), in_directory(whole, "first")
    for topic in (lost, healthy):
        assert produce(whole, topic, b"kept") == ErrorCode.NONE
    whole.wait(whole.stop())
    whole.loop.close()
    (tmp_path / "second").rename(tmp_path / "unplugged")
    (tmp_path / "second").write_text("no directory")

    caplog.clear()
    without = start()
    assert "second cannot be opened" in caplog.text
    assert len([record for record in caplog.records if "not served" in record.getMessage()]) == 1
    assert read(without, healthy) == [b"kept"]
    assert produce(without, healthy, b"kept too") == ErrorCode.NONE
    assert produce(without, lost, b"lost") == ErrorCode.KAFKA_STORAGE_ERROR
    assert directories(without)["second"] == (ErrorCode.KAFKA_STORAGE_ERROR, set())
    without.wait(without.node.create_topic("new", 4))
    assert all(without.broker.logs.directory_of(log).path.endswith("first") for log in without.broker.logs)
    without.wait(without.stop())
    without.loop.close()

    (tmp_path / "second").unlink()
    (tmp_path / "unplugged").rename(tmp_path / "second")
    assert read(start(), lost) == [b"kept"]


def test_replicas_of_emptied_directory_are_logged_before_they_are_served(
    whole: WholeBroker, start: Callable[..., WholeBroker], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost, healthy = in_directory(whole, "second"), in_directory(whole, "first")
    home = whole.broker.logs.directories[1].directory_id
    assert produce(whole, healthy, b"kept") == ErrorCode.NONE
    whole.wait(whole.stop())
    whole.loop.close()
    (tmp_path / "second").rename(tmp_path / "unmounted")
    caplog.clear()
    again = start()
    shown = [record.getMessage() for record in caplog.records]
    (error,) = (number for number, line in enumerate(shown) if uuid_text(home) in line)
    assert f"{lost}-0" in shown[error]
    assert error < next(number for number, line in enumerate(shown) if "listens on" in line)
    assert (read(again, lost), read(again, healthy)) == ([], [b"kept"])
    again.wait(again.stop())
    again.loop.close()
    caplog.clear()
    start()
    assert uuid_text(home) not in caplog.text


def test_failed_write_leaves_no_torn_batch_for_next_start(
    whole: WholeBroker, start: Callable[..., WholeBroker], disk: FaultyDisk
) -> None:
    broken = in_directory(whole, "second")
    assert produce(whole, broken, b"kept") == ErrorCode.NONE
    disk.arm("pwrite", errno.EIO)
    assert produce(whole, broken, b"torn") == ErrorCode.KAFKA_STORAGE_ERROR
    whole.wait(whole.stop())
    whole.loop.close()
    again = start()
    assert read(again, broken) == [b"kept"]
    assert produce(again, broken, b"after") == ErrorCode.NONE
    assert read(again, broken) == [b"kept", b"after"]


def test_full_disk_refuses_records_and_topics_until_there_is_space(
    whole: WholeBroker, disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    topic = in_directory(whole, "first")
    assert produce(whole, topic, b"before") == ErrorCode.NONE
    disk.full = True
    assert produce(whole, topic, b"refused") == ErrorCode.KAFKA_STORAGE_ERROR
    wanted = CreateTopicsRequest.Topic(name="new", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    (created,) = whole.call(ApiKey.CREATE_TOPICS, 5, topics=[wanted]).topics
    assert created.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert read(whole, topic) == [b"before"]
    whole.wait(whole.node._tasks.check_disk_space())
    for _ in range(3):
        for name in CHECKPOINTS:
            whole.wait(whole.node._tasks._checkpoint(name))
        whole.wait(whole.node._tasks.check_disk_space())
    shown = [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert [line.partition(" in ")[0] for line in shown] == ["Disk nearly full: 0 B free"] * 2
    assert all(directory.path in line for directory, line in zip(whole.broker.logs.directories, shown, strict=True))
    disk.full = False
    assert produce(whole, topic, b"after") == ErrorCode.NONE
    assert read(whole, topic) == [b"before", b"after"]
