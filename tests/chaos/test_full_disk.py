"""A full disk: no acknowledged record is lost, the log names the path, and the broker resumes once there is space."""

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch, iter_batches, iter_records
from tests.broker_process import COMMAND, BrokerProcess
from tests.raw_client import RawClient
from tests.small_disk import SmallDisk, small_disk

DISK_BYTES, BALLAST_BYTES, VALUE_BYTES = 32 << 20, 8 << 20, 100_000
TOPIC = "data"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "small", DISK_BYTES) as small:
        small.ballast.write_bytes(bytes(BALLAST_BYTES))
        yield small


class Producer:
    """Appends numbered values, and keeps the offsets of the acknowledged ones."""

    def __init__(self, bootstrap: str) -> None:
        self._client = RawClient(bootstrap)
        self.acknowledged: dict[int, bytes] = {}
        self._number = 0

    def append(self, size_bytes: int = VALUE_BYTES) -> ErrorCode:
        value = b"%d " % self._number + bytes(size_bytes)
        self._number += 1
        partition = ProduceRequest.Topic.Partition(index=0, records=build_batch([(None, value)]))
        topic = ProduceRequest.Topic(name=TOPIC, partition_data=[partition])
        answer = self._client.call(ApiKey.PRODUCE, 9, acks=-1, timeout_ms=10_000, topic_data=[topic])
        (done,) = answer.responses[0].partition_responses
        if not done.error_code:
            self.acknowledged[done.base_offset] = value
        return ErrorCode(done.error_code)

    def append_until(self, wanted: ErrorCode) -> None:
        deadline = time.monotonic() + 60
        while (code := self.append()) != wanted:
            assert code in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
            assert time.monotonic() < deadline

    def append_until_logged(self, line: str, log: Path, expected: ErrorCode, size_bytes: int) -> None:
        """Append, with the same outcome each time, until the broker's log has a line."""
        deadline = time.monotonic() + 60
        while line not in log.read_text():
            assert self.append(size_bytes) == expected
            assert time.monotonic() < deadline
            time.sleep(0.01)  # without a pause the disk is full again before the broker checks it

    def close(self) -> None:
        self._client.close()


def create_topic(bootstrap: str, name: str) -> ErrorCode:
    client = RawClient(bootstrap)
    topic = CreateTopicsRequest.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    code = client.call(ApiKey.CREATE_TOPICS, 5, topics=[topic]).topics[0].error_code
    client.close()
    return ErrorCode(code)


def stored(bootstrap: str) -> dict[int, bytes]:
    """Return the value at each offset."""
    client = RawClient(bootstrap)
    found: dict[Any, Any] = {}
    while True:
        partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=len(found), partition_max_bytes=1 << 20)
        topics = [FetchRequest.Topic(topic=TOPIC, partitions=[partition])]
        answer = client.call(ApiKey.FETCH, 11, max_wait_ms=0, min_bytes=1, topics=topics)
        (read,) = answer.responses[0].partitions
        assert read.error_code == 0
        records = [
            record
            for at, header in iter_batches(read.records or b"")
            for record in iter_records(read.records[at : at + header.size_bytes])
        ]
        if not records:
            client.close()
            return found
        found.update((record.offset, record.value) for record in records)


def test_full_disk_loses_no_acknowledged_record_and_broker_resumes_with_space(disk: SmallDisk, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "small", within=disk.command) as broker:
        assert create_topic(broker.bootstrap, TOPIC) == ErrorCode.NONE
        producer = Producer(broker.bootstrap)
        producer.append_until(ErrorCode.KAFKA_STORAGE_ERROR)
        assert len(producer.acknowledged) > DISK_BYTES // VALUE_BYTES // 2
        assert stored(broker.bootstrap) == producer.acknowledged
        refused = f"free in {broker.data_dir}. New topics are refused, as are records and settings that do not fit"
        producer.append_until_logged(refused, broker.log, ErrorCode.KAFKA_STORAGE_ERROR, VALUE_BYTES)
        assert create_topic(broker.bootstrap, "another") != ErrorCode.NONE

        disk.ballast.unlink()
        producer.append_until(ErrorCode.NONE)
        producer.append_until_logged(f"There is space in {broker.data_dir} again", broker.log, ErrorCode.NONE, 10)
        assert create_topic(broker.bootstrap, "another") == ErrorCode.NONE
        producer.close()

        broker.kill()
        broker.start()
        assert stored(broker.bootstrap) == producer.acknowledged
        assert broker.stop() == 0
        assert broker.log.read_text().count(refused) == 1
        broker.check_log()


def test_command_line_reports_full_disk_and_deleted_topic_frees_it(disk: SmallDisk, tmp_path: Path) -> None:
    def call(*arguments: str, typed: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [*COMMAND, *arguments, "-b", broker.bootstrap]
        return subprocess.run(command, input=typed, capture_output=True, timeout=120, check=False)

    with BrokerProcess(tmp_path / "small", within=disk.command) as broker:
        lines = (b"x" * VALUE_BYTES + b"\n") * (2 * DISK_BYTES // VALUE_BYTES)
        limits = ("-X", "request.timeout.ms=1000", "-X", "delivery.timeout.ms=5000")
        refused = call("produce", TOPIC, *limits, typed=lines)
        *waiting, given_up = refused.stderr.decode().splitlines()
        error = rf"{TOPIC}-0: KAFKA_STORAGE_ERROR for \d+ s \(log directory .* is full: .*\)"
        why = rf"{error}; \d+ of \d+ records acknowledged"
        assert any(re.fullmatch(f"barnabas produce: {why}; retrying", line) for line in waiting), waiting
        assert re.fullmatch(
            rf"barnabas produce: \d+ records were not acknowledged: {why}(; \d+ of them given up .*)?", given_up
        )
        assert refused.returncode == 1

        health = call("health")
        assert health.returncode == 1
        assert re.search(
            rf"log dirs +no +{broker.data_dir} on broker 1 has less than 2 MiB free", health.stdout.decode()
        )

        assert call("topic", "delete", TOPIC).returncode == 0
        deadline = time.monotonic() + 60
        while call("health").returncode:
            assert time.monotonic() < deadline
