"""Disks that fail under a whole broker: what was acknowledged stays, the rest is refused, and the log says where."""

import errno

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch, iter_records
from tests.disks import FaultyDisk
from tests.unit.broker.whole_broker import WholeBroker


@pytest.fixture
def disk():
    return FaultyDisk()


@pytest.fixture
def start(tmp_path, disk):
    """Start a broker on two directories, the metadata in the first; what is still running is stopped at the end."""
    running = []

    def start():
        directories = ",".join(str(tmp_path / name) for name in ("first", "second"))
        whole = WholeBroker(directories, disk, log_flush_interval_messages="1")
        running.append(whole)
        whole.wait(whole.broker.start())
        return whole

    yield start
    for whole in running:
        if not whole.loop.is_closed():
            whole.wait(whole.broker.stop())
            whole.loop.close()


@pytest.fixture
def whole(start):
    """A broker with a topic in each of its directories."""
    made = start()
    wanted = dict.fromkeys(made.broker.logs.directories)
    for number in range(20):
        if not wanted:
            break
        made.wait(made.broker.create_topic(f"candidate-{number}", 1))
        log = made.broker.logs.get(f"candidate-{number}", 0)
        if made.broker.logs.directory_of(log) in wanted:
            del wanted[made.broker.logs.directory_of(log)]
    return made


def in_directory(whole, name):
    """Return a topic in the directory of this name."""
    logs = whole.broker.logs
    return next(log.topic for log in logs if logs.directory_of(log).path.endswith(name))


def produce(whole, topic, value):
    partition = ProduceRequest.Topic.Partition(index=0, records=build_batch([(None, value)]))
    data = [ProduceRequest.Topic(name=topic, partition_data=[partition])]
    answer = whole.call(ApiKey.PRODUCE, 9, acks=-1, timeout_ms=1000, topic_data=data)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def read(whole, topic):
    """Return the values in a topic, or the error code."""
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1)
    values, offset = [], 0
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


def test_a_failed_fsync_takes_its_directory_offline_and_no_other(whole, start, disk, caplog):
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
        whole.wait(whole.broker._watch_space())
    failures = [record.getMessage() for record in caplog.records if "second failed" in record.getMessage()]
    assert len(failures) == 1
    assert not whole.wait(whole.broker.stop())
    whole.loop.close()

    again = start()
    assert read(again, broken)[:1] == [b"kept"]
    assert read(again, healthy) == [b"kept", b"kept too"]


def test_a_failed_write_leaves_nothing_half_written_for_the_next_start(whole, start, disk):
    broken = in_directory(whole, "second")
    assert produce(whole, broken, b"kept") == ErrorCode.NONE
    disk.arm("pwrite", errno.EIO)
    assert produce(whole, broken, b"torn") == ErrorCode.KAFKA_STORAGE_ERROR
    whole.wait(whole.broker.stop())
    whole.loop.close()
    again = start()
    assert read(again, broken) == [b"kept"]
    assert produce(again, broken, b"after") == ErrorCode.NONE
    assert read(again, broken) == [b"kept", b"after"]


def test_a_full_disk_refuses_records_and_topics_and_goes_on_when_there_is_space(whole, disk, caplog):
    topic = in_directory(whole, "first")
    assert produce(whole, topic, b"before") == ErrorCode.NONE
    disk.full = True
    assert produce(whole, topic, b"refused") == ErrorCode.KAFKA_STORAGE_ERROR
    wanted = CreateTopicsRequest.Topic(name="new", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    (created,) = whole.call(ApiKey.CREATE_TOPICS, 5, topics=[wanted]).topics
    assert created.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert read(whole, topic) == [b"before"]
    whole.wait(whole.broker._watch_space())
    assert f"No space is left in {whole.broker.logs.directories[0].path}" in caplog.text
    disk.full = False
    assert produce(whole, topic, b"after") == ErrorCode.NONE
    assert read(whole, topic) == [b"before", b"after"]
