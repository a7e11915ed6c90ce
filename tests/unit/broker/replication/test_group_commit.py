"""barnabas.fsync=always: acknowledged (acks=all) and readable records are on the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.replication.partition import Isolation
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from storage.log.config import LogConfig
from storage.log.flush import Flush
from tests.disks import FaultyDisk
from tests.typed import present
from tests.unit.broker.held_threads import HeldThreads, block_default_executor
from tests.unit.broker.node import METADATA_LOG, Node

ALWAYS = LogConfig(barnabas_fsync="always")
BATCH = build_batch([(None, b"value")], timestamp_ms=1_700_000_000_000)


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk(spared=METADATA_LOG)


@pytest.fixture
def node(tmp_path: Path, disk: FaultyDisk) -> Iterator[Node]:
    made = Node(str(tmp_path / "data"), disk)
    made.start()
    yield made
    made.stop()


@pytest.fixture(params=[False, True], ids=["straight", "decoded"])
def way(node: Node, request: pytest.FixtureRequest) -> None:
    node.decodes_all = request.param


def send(node: Node, *indexes: int, acks: int = -1, topic: str = "t", timeout_ms: int = 1000) -> Any:
    """Produce a batch to each of some partitions; return the response or its Deferred."""
    rows = [ProduceRequest.Topic.Partition(index=index, records=BATCH) for index in indexes or (0,)]
    data = [ProduceRequest.Topic(name=topic, partition_data=rows)]
    return node.query(ApiKey.PRODUCE, 12, acks=acks, timeout_ms=timeout_ms, topic_data=data)


def codes(response: Any) -> list[int]:
    return [row.error_code for row in response.responses[0].partition_responses]


def readable(node: Node, index: int = 0) -> int:
    return node.partition("t", index).read(0, 1 << 20, Isolation.READ_UNCOMMITTED).high_watermark


def send_during_another_flush(node: Node) -> tuple[Any, Flush]:
    """Produce a batch during a flush of its log by another caller than group commit; return both."""
    node.create("t", config=ALWAYS)
    answer = send(node)
    other = present(node.partition("t").log.begin_flush(node.now_ms()))
    node.pass_time(0)
    return answer, other


def test_records_do_not_wait_for_default_executor(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    block_default_executor(node.loop, monkeypatch)
    node.create("t", config=ALWAYS)
    assert codes(node.wait(send(node))) == [ErrorCode.NONE]


@pytest.mark.usefixtures("way")
def test_acks_all_completes_and_is_readable_once_segment_is_synced(
    node: Node, threads: HeldThreads, disk: FaultyDisk
) -> None:
    node.create("t", config=ALWAYS)
    disk.calls.clear()
    answer = send(node)
    node.pass_time(0)
    assert (answer.done(), readable(node), disk.called("sync")) == (False, 0, [])
    threads.let()
    assert codes(node.wait(answer)) == [ErrorCode.NONE]
    assert (readable(node), "00000000000000000000.log" in disk.called("sync")) == (1, True)


@pytest.mark.usefixtures("way")
def test_errors_are_returned_together_with_synced_partitions(node: Node, threads: HeldThreads) -> None:
    node.create("t", partitions=2, config=ALWAYS)
    first, late = (
        build_batch([(None, b"value")], producer_id=7, producer_epoch=0, base_sequence=sequence) for sequence in (0, 5)
    )
    node.append("t", (None, b"value"), index=1, producer_id=7, producer_epoch=0, base_sequence=0)
    rows = [ProduceRequest.Topic.Partition(index=index, records=records) for index, records in enumerate((first, late))]
    data = [ProduceRequest.Topic(name="t", partition_data=rows)]
    answer = node.query(ApiKey.PRODUCE, 12, acks=-1, timeout_ms=1000, topic_data=data)
    while not answer.done():
        node.pass_time(0)
        threads.let()
        node.pass_time(0)
    assert codes(node.wait(answer)) == [ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    while threads.jobs:
        threads.let()


@pytest.mark.usefixtures("way", "threads")
def test_disk_failure_during_request_fails_its_earlier_appends(node: Node, disk: FaultyDisk) -> None:
    node.create("t", partitions=2, config=ALWAYS)
    disk.arm("pwrite", after=1)
    assert codes(node.wait(send(node, 0, 1))) == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


@pytest.mark.parametrize("acks", [0, 1])
def test_other_acks_complete_immediately_and_are_readable_once_synced(
    node: Node, threads: HeldThreads, acks: int
) -> None:
    node.create("t", config=ALWAYS)
    response = send(node, acks=acks)
    assert response is None if acks == 0 else codes(response) == [ErrorCode.NONE]
    assert readable(node) == 0
    node.pass_time(0)
    threads.let()
    node.pass_time(0)
    assert readable(node) == 1


def test_appends_during_sync_share_next_one(node: Node, threads: HeldThreads, disk: FaultyDisk) -> None:
    node.create("t", config=ALWAYS)
    first = send(node)
    node.pass_time(0)
    later = [send(node) for _ in range(10)]
    node.pass_time(0)
    assert len(threads.jobs) == 1
    threads.let()
    node.wait(first)
    assert not any(answer.done() for answer in later)
    disk.calls.clear()
    threads.let()
    assert [codes(node.wait(answer)) for answer in later] == [[ErrorCode.NONE]] * 10
    assert disk.called("sync") == ["00000000000000000000.log"]


def test_logs_of_one_loop_iteration_are_divided_among_few_threads(node: Node, threads: HeldThreads) -> None:
    node.create("t", partitions=10, config=ALWAYS)
    answer = send(node, *range(10))
    node.pass_time(0)
    assert len(threads.jobs) == 4
    for _ in range(4):
        assert not answer.done()
        threads.let()
        node.pass_time(0)
    assert codes(node.wait(answer)) == [ErrorCode.NONE] * 10


def test_number_of_logs_per_sync_thread_is_limited(node: Node, threads: HeldThreads) -> None:
    node.create("t", partitions=300, config=ALWAYS)
    for index in range(300):
        node.append("t", index=index)
    node.pass_time(0)
    jobs = 0
    while threads.jobs:
        assert len(node.replicas.group_commit._in_flight) <= 4 * 64
        threads.let()
        jobs += 1
        node.pass_time(0)
    assert jobs > 4
    assert all(readable(node, index) == 1 for index in range(300))


def test_slow_sync_thread_does_not_delay_others(node: Node, threads: HeldThreads) -> None:
    node.create("t", partitions=5, config=ALWAYS)
    answers = []
    for index in range(5):
        answers.append(send(node, index))
        node.pass_time(0)
    assert len(threads.jobs) == 4
    threads.let(3)
    node.wait(answers[3])
    threads.let(3)
    node.wait(answers[4])
    assert [answer.done() for answer in answers] == [False, False, False, True, True]
    while threads.jobs:
        threads.let()
        node.pass_time(0)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("refused", [False, True])
def test_each_batch_of_partition_that_occurs_twice_in_request_has_own_outcome(
    node: Node, threads: HeldThreads, disk: FaultyDisk, refused: bool
) -> None:
    node.create("t", partitions=2, config=ALWAYS)
    sequences = (0, 1, 7) if refused else (0, 1, 2)
    batches = [build_batch([(None, b"v")], producer_id=7, producer_epoch=0, base_sequence=one) for one in sequences]
    rows = [ProduceRequest.Topic.Partition(index=1, records=records) for records in batches]
    data = [ProduceRequest.Topic(name="t", partition_data=rows)]
    answer = node.query(ApiKey.PRODUCE, 12, acks=-1, timeout_ms=1000, topic_data=data)
    node.pass_time(0)
    disk.arm("sync")
    threads.let()
    last = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if refused else ErrorCode.KAFKA_STORAGE_ERROR
    assert codes(node.wait(answer)) == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR, last]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", ["sync", "sync_dir"])
def test_failed_sync_fails_all_waiting_requests_and_is_not_retried(
    node: Node, threads: HeldThreads, disk: FaultyDisk, kind: str
) -> None:
    node.create("t", partitions=2, config=ALWAYS)
    answers = [send(node, 0), send(node, 0), send(node, 1)]
    node.pass_time(0)
    late = send(node, 0)
    disk.calls.clear()
    disk.arm(kind)
    while threads.jobs:
        threads.let()
        node.pass_time(0)
    assert [codes(node.wait(answer)) for answer in (*answers, late)] == [[ErrorCode.KAFKA_STORAGE_ERROR]] * 4
    assert node.logs.online == []
    assert codes(send(node, 0)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    disk.calls.clear()
    node.pass_time(10)
    assert disk.called("sync") == []
    assert node.partition("t").high_watermark == 0


def test_new_segment_and_its_directory_are_synced_before_acknowledgement(
    node: Node, threads: HeldThreads, disk: FaultyDisk
) -> None:
    node.create("t", config=ALWAYS._replace(segment_bytes=2 * len(BATCH)))
    for _ in range(2):
        answer = send(node)
        node.pass_time(0)
        threads.let()
        node.wait(answer)
    disk.calls.clear()
    answer = send(node)
    node.pass_time(0)
    assert not answer.done()
    threads.let()
    node.wait(answer)
    assert {"00000000000000000000.log", "00000000000000000002.log", "00000000000000000002.snapshot"} <= {
        *disk.called("sync")
    }
    assert disk.called("sync_dir") == ["t-0"]


def test_segment_may_roll_during_sync(node: Node, threads: HeldThreads) -> None:
    node.create("t", config=ALWAYS._replace(segment_bytes=2 * len(BATCH)))
    answers = [send(node)]
    node.pass_time(0)
    answers += [send(node) for _ in range(4)]
    threads.let()
    node.wait(answers[0])
    assert readable(node) == 1
    threads.let()
    assert codes(node.wait(answers[4])) == [ErrorCode.NONE]
    assert readable(node) == 5


def test_topic_may_be_deleted_during_sync(node: Node, threads: HeldThreads) -> None:
    node.create("t", config=ALWAYS)
    answers = [send(node)]
    node.pass_time(0)
    answers.append(send(node))
    node.remove("t")
    node.pass_time(0)
    assert [codes(node.wait(answer)) for answer in answers] == [[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]] * 2
    threads.let()
    node.pass_time(0)
    assert (threads.jobs, node.logs.online) == ([], node.logs.directories)


def test_log_truncated_during_sync_is_synced_again(node: Node, threads: HeldThreads) -> None:
    node.create("t", config=ALWAYS)
    answer = send(node)
    node.pass_time(0)
    log = node.partition("t").log
    log.truncate_to(0)
    send(node)
    threads.let()
    node.pass_time(0)
    assert (readable(node), answer.done()) == (0, False)
    threads.let()
    node.pass_time(0)
    assert readable(node) == 1


def test_acknowledgement_waits_for_earlier_flush_of_log(node: Node, threads: HeldThreads) -> None:
    answer, other = send_during_another_flush(node)
    threads.let()
    node.pass_time(0)
    assert (answer.done(), threads.jobs) == (False, [])  # Another sync would not help.
    other.sync()
    other.finish()
    assert codes(node.wait(answer)) == [ErrorCode.NONE]


def test_failed_earlier_flush_fails_waiting_requests(node: Node, threads: HeldThreads, disk: FaultyDisk) -> None:
    answer, other = send_during_another_flush(node)
    threads.let()
    drained = node.loop.create_task(node.replicas.group_commit.drain())
    node.pass_time(0)
    assert not drained.done()
    disk.arm("sync")
    other.sync()
    with pytest.raises(KafkaError):
        other.finish()
    assert codes(node.wait(answer)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    node.wait(drained)


def test_append_during_other_flush_is_synced_after_it(node: Node, threads: HeldThreads) -> None:
    first, other = send_during_another_flush(node)
    second = send(node)
    threads.let()
    node.pass_time(0)
    other.sync()
    other.finish()
    assert codes(node.wait(first)) == [ErrorCode.NONE]
    assert not second.done()
    threads.let()
    assert codes(node.wait(second)) == [ErrorCode.NONE]


def test_record_stays_if_sync_exceeds_request_timeout(node: Node, threads: HeldThreads) -> None:
    node.create("t", config=ALWAYS)
    assert codes(node.wait(send(node, timeout_ms=500))) == [ErrorCode.REQUEST_TIMED_OUT]
    threads.let()
    node.pass_time(0)
    assert readable(node) == 1


def test_fsync_setting_can_be_altered_live(node: Node, threads: HeldThreads) -> None:
    node.create("t")
    assert codes(send(node)) == [ErrorCode.NONE]
    node.configure("t", barnabas_fsync="always")
    node.pass_time(0)
    threads.let()
    answer = send(node)
    node.pass_time(0)
    assert (answer.done(), readable(node)) == (False, 1)
    node.configure("t", barnabas_fsync="flush")
    assert codes(node.wait(answer)) == [ErrorCode.NONE]
    assert readable(node) == 2
    while threads.jobs:
        threads.let()
        node.pass_time(0)


def test_records_after_unclean_stop_are_readable_once_synced(tmp_path: Path) -> None:
    node = Node(str(tmp_path / "data"))
    node.start()
    node.create("t", config=ALWAYS)
    node.append("t")
    node.crash()
    again = Node(str(tmp_path / "data"))
    again.open()
    with HeldThreads.of(again.loop) as threads:
        again.start()
        assert (again.partition("t").high_watermark, again.partition("t").log.log_end_offset) == (0, 1)
        threads.let()
        again.pass_time(0)
        assert again.partition("t").high_watermark == 1
    again.stop()


def test_sync_on_full_disk_is_retried(node: Node, threads: HeldThreads, disk: FaultyDisk) -> None:
    node.create("t", config=ALWAYS)
    answer = send(node, timeout_ms=5000)
    disk.full = True
    node.pass_time(0)
    assert (threads.jobs, answer.done()) == ([], False)
    disk.full = False
    node.pass_time(1.5)
    threads.let()
    assert codes(node.wait(answer)) == [ErrorCode.NONE]


@pytest.mark.usefixtures("way")
def test_requests_fail_if_no_sync_thread_can_be_started(node: Node, threads: HeldThreads, disk: FaultyDisk) -> None:
    node.create("t", partitions=10, config=ALWAYS)
    threads.spent = True
    disk.calls.clear()
    answer = send(node, *range(10))
    assert codes(node.wait(answer)) == [ErrorCode.KAFKA_STORAGE_ERROR] * 10
    node.wait(node.replicas.group_commit.drain())
    assert (disk.called("sync"), node.logs.online) == ([], [])


def test_drain_completes_when_no_sync_is_pending(node: Node, threads: HeldThreads) -> None:
    node.create("t", config=ALWAYS)
    node.wait(node.replicas.group_commit.drain())
    send(node)
    drained = node.loop.create_task(node.replicas.group_commit.drain())
    node.pass_time(0)
    send(node)
    threads.let()
    node.pass_time(0)
    assert not drained.done()
    threads.let()
    node.wait(drained)


def test_stop_waits_for_syncs_in_flight_and_begins_none_after(node: Node, threads: HeldThreads) -> None:
    node.create("t", config=ALWAYS)
    answer = send(node)
    stopped = node.loop.create_task(node.replicas.group_commit.stop())
    node.pass_time(0)
    assert not stopped.done()
    threads.let()
    node.wait(stopped)
    assert codes(node.wait(answer)) == [ErrorCode.NONE]
    node.append("t")
    node.pass_time(2)
    assert threads.jobs == []


def test_stop_ends_the_threads(node: Node) -> None:
    node.create("t", config=ALWAYS)
    executor = node.replicas.group_commit._threads
    node.wait(node.replicas.group_commit.stop())
    with pytest.raises(RuntimeError, match="shutdown"):
        executor.submit(int)
