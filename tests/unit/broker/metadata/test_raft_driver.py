"""The controller on disk: commands in order, durable before they are answered, and recovered after a restart."""

from __future__ import annotations

import asyncio
import errno
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker.metadata.metadata_log import MetadataLog
from controller.commands.controller_result import ControllerResult
from controller.commands.producer_ids import allocate_producer_ids
from controller.commands.topics import create_topics, delete_topics
from controller.image import MetadataImage, ResourceType
from controller.raft.log import Entry
from controller.snapshot import parse_snapshot_name
from protocol.errors import ErrorCode, InvariantError, KafkaError
from protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.primitives import ZERO_UUID
from protocol.records.metadata import BeginTransactionRecord, ConfigRecord, NoOpRecord, RemoveTopicRecord
from storage.disk import OsDisk
from storage.log.config import LogConfig
from storage.log_directory import LogDirectory
from tests.disks import FaultyDisk
from tests.typed import present
from tests.unit.broker.controller_node import CLUSTER_ID
from tests.unit.broker.metadata.raft_rig import RaftRig
from tests.unit.controller.cluster import new_topic

SMALL_SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "2000"}


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[RaftRig]:
    made = RaftRig(str(tmp_path / "data"))
    yield made
    made.close()


@pytest.fixture
def rig(stopped: RaftRig) -> RaftRig:
    """Return a Raft driver on an empty disk, with one broker registered."""
    stopped.start()
    return stopped


def creating(node: RaftRig, *names: str, partitions: int = 1) -> Any:
    topics = [new_topic(name, partitions, configs={"retention.ms": "5"}) for name in names]
    request = CreateTopicsRequest(topics=topics)
    return partial(create_topics, request=request, settings=node.settings, random=node.random)


def create(node: RaftRig, *names: str, partitions: int = 1) -> None:
    node.wait(node.raft.submit(creating(node, *names, partitions=partitions)))


def state(image: MetadataImage) -> Any:
    """Return the state that a restart must preserve."""
    topics = {
        topic.name: (topic.topic_id, [(part.partition, part.replicas, part.directories) for part in partitions])
        for topic in image.topics()
        for partitions in [topic.partitions.values()]
    }
    return topics, image.all_configs(), image.features, image.next_producer_id, image.cluster_id


def snapshots(node: RaftRig) -> list[str]:
    names = (path.name for path in Path(node.path, "__cluster_metadata-0").iterdir())
    return sorted(name for name in names if parse_snapshot_name(name))


def test_new_cluster_starts_with_features(stopped: RaftRig) -> None:
    stopped.start(join=False)
    assert stopped.image.features == {
        "metadata.version": 30,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
    }
    assert stopped.image.configs(ResourceType.BROKER, "") == {"min.insync.replicas": "1"}
    assert stopped.image.cluster_id == CLUSTER_ID
    assert stopped.raft.is_only_voter


@pytest.mark.parametrize("crash", [False, True])
def test_restart_recovers_controller_state(rig: RaftRig, crash: bool) -> None:
    create(rig, "a", "b", partitions=3)
    epoch = rig.image.brokers[1].epoch
    block = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    rig.wait(rig.raft.submit(partial(allocate_producer_ids, request=block)))
    topics = [DeleteTopicsRequest.Topic(name="b", topic_id=ZERO_UUID)]
    request = DeleteTopicsRequest(topics=topics, timeout_ms=1)
    rig.wait(rig.raft.submit(partial(delete_topics, request=request, settings=rig.settings)))
    before = rig.image
    if crash:
        rig.crash()
    else:
        rig.stop()
    rig.start()
    assert state(rig.image) == state(before)
    assert [topic.name for topic in rig.image.topics()] == ["a"]
    assert rig.image.epoch == before.epoch + 1
    assert rig.image.brokers[1].epoch > epoch
    assert all(partition.leader == 1 for partition in present(rig.image.topic("a")).partitions.values())


def leave_transaction_open(node: RaftRig) -> None:
    """Append an open transaction to the metadata log of a stopped node, as if its controller had died within it."""
    config = LogConfig(cleanup_policy=frozenset(), file_delete_delay_ms=0)
    log = MetadataLog.open(OsDisk(), LogDirectory(OsDisk(), node.path), None, config=config, now_ms=1)
    setting = ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name="log.cleaner.threads", value="4")
    flush = present(log.append([Entry(log.end_offset, node.image.epoch, (BeginTransactionRecord(), setting))], 1000))
    flush.sync()
    flush.finish()
    log.close(1)


def test_a_transaction_that_another_controller_left_open_is_aborted(rig: RaftRig) -> None:
    create(rig, "a")
    before = rig.image.configs(ResourceType.BROKER, "")
    rig.stop()
    leave_transaction_open(rig)
    for _ in range(2):
        rig.start(SMALL_SNAPSHOTS)
        assert rig.image.configs(ResourceType.BROKER, "") == before
        create(rig, f"t{rig.image.epoch}")
        rig.stop()
    assert len(rig.image.topics()) == 3


def test_static_voters_are_stored_as_kafka_stores_them(stopped: RaftRig) -> None:
    settings = {"controller.quorum.voters": "1@localhost:9093"}
    for restarts in range(2):
        stopped.start(settings)
        stopped.stop()
        assert snapshots(stopped) == [], restarts
    state_file = Path(stopped.path, "__cluster_metadata-0", "quorum-state")
    assert '"currentVoters":[{"voterId":1}],"data_version":0' in state_file.read_text()


def test_a_topic_can_be_used_when_its_command_returns(rig: RaftRig) -> None:
    reported: list[tuple[int, bool]] = []

    def subscriber(old: MetadataImage, new: MetadataImage, records: tuple[object, ...]) -> None:
        reported.append((len(records), old.topic("t") is None and new.topic("t") is not None))
        assert rig.image is new

    rig.raft.subscribe(subscriber)
    create(rig, "t", partitions=2)
    assert reported == [(4, True)]
    assert rig.image.topic("t") is not None


def test_commands_see_records_of_earlier_commands_in_order(rig: RaftRig) -> None:
    offsets: list[tuple[int, int]] = []
    rig.raft.subscribe(lambda old, new, records: offsets.append((old.offset, new.offset)))
    submit = rig.raft.submit

    async def all_at_once() -> Any:
        return await asyncio.gather(*(submit(creating(rig, "t")) for _ in range(3)))

    answers = [response.topics[0].error_code for response in rig.wait(all_at_once())]
    assert answers == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.TOPIC_ALREADY_EXISTS]
    assert len(offsets) == 1


def test_commands_that_wait_for_each_other_share_a_sync(tmp_path: Path) -> None:
    node = RaftRig(str(tmp_path), FaultyDisk())
    node.start()
    syncs = len(node.disk.called("sync"))  # type: ignore[attr-defined]  # this fixture's disk
    submit = node.raft.submit

    async def all_at_once() -> None:
        await asyncio.gather(*(submit(creating(node, f"t{number}")) for number in range(50)))

    node.wait(all_at_once())
    assert len(node.image.topics()) == 50
    assert len(node.disk.called("sync")) - syncs <= 4  # type: ignore[attr-defined]  # this fixture's disk
    node.close()


def test_a_command_that_fails_fails_alone(rig: RaftRig) -> None:
    def refused(_image: MetadataImage) -> ControllerResult[None]:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "no")

    def broken(_image: MetadataImage) -> ControllerResult[None]:
        raise ZeroDivisionError

    def impossible(_image: MetadataImage) -> ControllerResult[None]:
        return ControllerResult((RemoveTopicRecord(topic_id=bytes(16)),), None)

    submit = rig.raft.submit

    async def all_at_once() -> list[Any]:
        commands = [submit(refused), submit(broken), submit(impossible), submit(creating(rig, "t"))]
        return await asyncio.gather(*commands, return_exceptions=True)

    *failed, last = rig.wait(all_at_once())
    assert [type(error) for error in failed] == [KafkaError, ZeroDivisionError, InvariantError]
    assert last.topics[0].error_code == ErrorCode.NONE
    rig.stop()
    rig.start()
    assert rig.image.topic("t") is not None
    assert rig.failures == []


def test_timed_out_command_is_still_executed(rig: RaftRig) -> None:
    with pytest.raises(KafkaError) as late:
        rig.wait(rig.raft.submit(creating(rig, "t"), timeout_ms=0))
    assert late.value.code is ErrorCode.REQUEST_TIMED_OUT
    create(rig, "u")
    assert rig.image.topic("t") is not None


def test_command_committed_at_timeout_completes_before_it_is_published(
    rig: RaftRig,
) -> None:
    loop, answered = rig.loop, asyncio.Event()

    def slowly(*_: object) -> Iterator[None]:
        real = loop.time
        loop.time = lambda: real() + 20  # type: ignore[method-assign]
        while not answered.is_set():
            yield

    rig.raft.subscribe(slowly)
    response = rig.wait(rig.raft.submit(creating(rig, "t"), timeout_ms=20_000))
    assert response.topics[0].error_code == ErrorCode.NONE
    answered.set()
    assert rig.image.topic("t") is not None


@pytest.mark.parametrize("kind", ["pwrite", "sync"])
def test_a_log_that_cannot_be_written_stops_the_broker(tmp_path: Path, kind: str) -> None:
    disk = FaultyDisk()
    node = RaftRig(str(tmp_path), disk)
    node.start()
    before = node.image
    disk.arm(kind, errno.EIO)
    for name in ("t", "u"):
        with pytest.raises(InvariantError):
            create(node, name)
    assert [type(failure["exception"]) for failure in node.failures] == [InvariantError]
    assert node.image is before
    node.close()


def test_a_subscriber_that_fails_stops_the_broker(rig: RaftRig) -> None:
    def failing(*_: object) -> None:
        raise ZeroDivisionError

    rig.raft.subscribe(failing)
    with pytest.raises(InvariantError):
        create(rig, "t")
    assert len(rig.failures) == 1


def test_loop_runs_other_tasks_between_subscriber_steps(rig: RaftRig) -> None:
    loop, order = rig.loop, list[str]()

    def long_step(name: str) -> None:
        order.append(name)
        loop.call_soon(order.append, "somebody else")
        ends = loop.time() + 0.02
        while loop.time() < ends:
            pass

    def subscriber(*_: object) -> Iterator[None]:
        for name in ("first step", "second step"):
            long_step(name)
            yield

    rig.raft.subscribe(subscriber)
    create(rig, "t")
    order.append("answer")
    assert order == ["first step", "somebody else", "second step", "somebody else", "answer"]


def test_snapshot_is_generated_when_log_has_grown(stopped: RaftRig) -> None:
    node = stopped
    node.start(SMALL_SNAPSHOTS)
    assert len(snapshots(node)) == 1
    number = 0
    while len(snapshots(node)) <= 2:  # one at a time: none is due while one is being written
        create(node, f"t{number}", partitions=5)
        number += 1
    node.stop()
    assert 2 <= number < 100
    before = node.image
    node.start(SMALL_SNAPSHOTS)
    assert state(node.image) == state(before)


def test_snapshot_is_generated_after_interval_if_log_has_changed(stopped: RaftRig) -> None:
    node = stopped
    node.start({"metadata.log.max.snapshot.interval.ms": "1000"})
    create(node, "before")
    assert len(snapshots(node)) == 1
    node.now += 1000
    create(node, "after")
    node.stop()
    assert len(snapshots(node)) == 2


def test_snapshot_is_not_generated_without_changes(stopped: RaftRig) -> None:
    node = stopped
    node.start({"metadata.log.max.snapshot.interval.ms": "1000", "metadata.max.retention.bytes": "1"})
    for records in ((NoOpRecord(),), (), ()):
        node.now += 1000
        node.wait(node.raft.submit(lambda _, records=records: ControllerResult(records, None)))  # type: ignore[misc]  # a lambda with a default has no inferred type
        while asyncio.all_tasks(node.loop):
            node.wait(asyncio.sleep(0))
    assert node.failures == []
    before = node.image
    node.stop()
    node.start()
    assert state(node.image) == state(before)


def test_a_start_reads_the_newest_snapshot_and_only_the_log_after_it(stopped: RaftRig) -> None:
    node = stopped
    settings = {**SMALL_SNAPSHOTS, "metadata.max.retention.bytes": "1"}
    node.start(settings)
    for number in range(10):
        create(node, f"t{number}", partitions=5)
    node.stop()
    [name] = snapshots(node)
    assert present(parse_snapshot_name(name)).end_offset > 10
    first_segment = min(Path(node.path, "__cluster_metadata-0").glob("*.log")).stem
    assert int(first_segment) > 10
    before = node.image
    node.start(settings)
    assert state(node.image) == state(before)
    assert node.image.configs(ResourceType.TOPIC, "t0") == {"retention.ms": "5"}


def test_a_damaged_snapshot_stops_the_start(stopped: RaftRig) -> None:
    node = stopped
    node.start(SMALL_SNAPSHOTS)
    for number in range(10):
        create(node, f"t{number}", partitions=5)
    node.stop()
    newest = Path(node.path, "__cluster_metadata-0", snapshots(node)[-1])
    newest.write_bytes(newest.read_bytes()[:-10])
    with pytest.raises(InvariantError, match=newest.name):
        node.start()
    node.crash()


def test_torn_batch_at_log_end_is_truncated_and_logged_after_crash(
    rig: RaftRig, caplog: pytest.LogCaptureFixture
) -> None:
    create(rig, "whole")
    rig.crash()
    [log] = Path(rig.path, "__cluster_metadata-0").glob("*.log")
    whole = log.read_bytes()
    rig.start()
    create(rig, "torn")
    rig.crash()
    log.write_bytes(log.read_bytes()[:-3])
    rig.start()
    [shown] = [record.getMessage() for record in caplog.records if "metadata log" in record.getMessage()]
    assert re.fullmatch(rf"Truncated \d+ bytes of .* in {rig.path}; it now ends at offset \d+", shown)
    assert [topic.name for topic in rig.image.topics()] == ["whole"]
    assert log.read_bytes().startswith(whole)


def test_a_disk_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    disk = FaultyDisk()
    node = RaftRig(str(tmp_path), disk)
    disk.arm("pwrite", errno.ENOSPC)
    with pytest.raises(InvariantError, match="cannot be used"):
        node.start()
    node.crash()
    node.start()
    node.close()


def test_full_disk_fails_only_snapshot_of_controller(tmp_path: Path) -> None:
    disk = FaultyDisk()
    node = RaftRig(str(tmp_path), disk)
    node.start(SMALL_SNAPSHOTS)
    disk.arm("replace", errno.ENOSPC)
    for number in range(20):
        create(node, f"t{number}", partitions=5)
    node.stop()
    assert node.failures == []
    before = node.image
    node.start(SMALL_SNAPSHOTS)
    assert len(snapshots(node)) > 1
    assert state(node.image) == state(before)
    node.close()


def test_a_disk_that_fails_under_a_snapshot_stops_the_broker(tmp_path: Path) -> None:
    disk = FaultyDisk()
    node = RaftRig(str(tmp_path), disk)
    node.start(SMALL_SNAPSHOTS)
    disk.arm("replace", errno.EIO)
    create(node, "t", partitions=50)
    node.stop()
    assert [type(failure["exception"]) for failure in node.failures] == [InvariantError]
    with pytest.raises(InvariantError):
        create(node, "u")
    node.close()


def test_full_disk_refuses_commands_and_drops_their_records(tmp_path: Path) -> None:
    disk = FaultyDisk()
    node = RaftRig(str(tmp_path), disk)
    node.start()
    create(node, "before")
    disk.full = True
    for _ in range(2):
        with pytest.raises(KafkaError, match="is full") as refused:
            create(node, "meanwhile")
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.full = False
    create(node, "after")
    known = state(node.image)
    assert [topic.name for topic in node.image.topics()] == ["before", "after"]
    node.stop()
    assert node.failures == []
    node.start()
    assert set(state(node.image)[0]) == set(known[0])
    node.close()


def test_stop_ends_the_threads(stopped: RaftRig) -> None:
    node = stopped
    node.start()
    create(node, "t")
    executor = node.raft._threads
    node.stop()
    with pytest.raises(RuntimeError, match="shutdown"):
        executor.submit(int)
