"""A quorum of several controller-only nodes, each a process of its own, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controller.commands.controller_result import ControllerResult
from controller.image import MetadataImage, ResourceType
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from protocol.records.metadata import ConfigRecord
from tests.typed import present
from tests.unit.broker.whole_cluster import CONTROLLER, WholeCluster

THREE = dict.fromkeys((1, 2, 3), CONTROLLER)


@pytest.fixture
def make() -> Iterator[Callable[..., WholeCluster]]:
    made: list[WholeCluster] = []

    def make(**settings: Any) -> WholeCluster:
        made.append(WholeCluster(THREE, **settings))
        made[-1].start()
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def three(make: Callable[..., WholeCluster]) -> WholeCluster:
    return make()


def submit(cluster: WholeCluster, node: int, value: object) -> Any:
    """Submit a config change to a node; return the task."""
    record = ConfigRecord(
        resource_type=ResourceType.BROKER, resource_name="", name="log.cleaner.threads", value=str(value)
    )
    controller, loop = cluster.raft(node), cluster.hosts[node].loop
    assert loop is not None
    return loop.create_task(controller.submit(lambda _: ControllerResult((record,), value)))


def outcome(cluster: WholeCluster, task: Any) -> Any:
    cluster.until(task.done)
    return task.exception() or task.result()


def value(cluster: WholeCluster, node: int) -> str | None:
    image: MetadataImage = cluster.raft(node).image
    return image.configs(ResourceType.BROKER, "").get("log.cleaner.threads")


def values(cluster: WholeCluster) -> set[str | None]:
    return {value(cluster, node) for node in cluster.running}


def test_one_node_leads_and_all_know_it(three: WholeCluster) -> None:
    leader = three.active
    three.until(lambda: all(three.raft(node).leader_id == leader for node in (1, 2, 3)))
    assert [three.raft(node).leads for node in (1, 2, 3)].count(True) == 1


def test_first_leader_bootstraps_cluster_once(three: WholeCluster) -> None:
    leader = three.raft(three.active)
    three.until(lambda: "metadata.version" in leader.image.features)
    features = dict(leader.image.features)
    three.until(lambda: all(three.raft(node).image.features == features for node in (1, 2, 3)))


def test_completed_commands_are_committed_and_replicated(three: WholeCluster) -> None:
    leader = three.active
    assert outcome(three, submit(three, leader, 5)) == 5
    assert value(three, leader) == "5"
    three.until(lambda: values(three) == {"5"})


def test_follower_refuses_commands(three: WholeCluster) -> None:
    other = next(node for node in three.running if node != three.active)
    refused = outcome(three, submit(three, other, 5))
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.NOT_CONTROLLER


def test_a_killed_leader_is_replaced_and_nothing_is_lost(three: WholeCluster) -> None:
    killed = three.active
    outcome(three, submit(three, killed, 5))
    began = three.schedule.now
    three.kill(killed)
    leader = three.active
    assert three.schedule.now - began < 2, "its connections broke: the fetch timeout is not awaited"
    assert value(three, leader) == "5"
    assert outcome(three, submit(three, leader, 6)) == 6
    three.start(killed)
    three.until(lambda: values(three) == {"6"})


def test_stopped_leader_resigns_immediately(three: WholeCluster) -> None:
    stopped = three.active
    began = three.schedule.now
    three.stop(stopped)
    assert three.active != stopped
    assert three.schedule.now - began < 0.5


def test_reelection_of_same_leader_is_leader_change(three: WholeCluster) -> None:
    """It may have lost all pending requests, as after a power cut."""
    leader = three.active
    other = next(node for node in three.running if node != leader)
    three.until(lambda: three.raft(other).leader_id == leader)
    driver, loop = three.raft(other), present(three.hosts[other].loop)
    changed, epoch = driver.leader_change(), driver.epoch + 1
    begins = BeginQuorumEpochRequest.Topic.Partition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    topic = BeginQuorumEpochRequest.Topic(topic_name="__cluster_metadata", partitions=[begins])
    loop.call_soon(driver.handle_request, BeginQuorumEpochRequest(cluster_id=None, topics=[topic]))
    three.until(changed.done)
    assert (driver.leader_id, driver.epoch) == (leader, epoch)


def test_no_command_completes_without_majority(three: WholeCluster) -> None:
    leader = three.active
    others = [node for node in three.running if node != leader]
    for other in others:
        three.kill(other)
    task = submit(three, leader, 5)
    refused = outcome(three, task)
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.NOT_CONTROLLER, (
        "it resigns when it has had no contact with a majority for too long"
    )
    assert not three.raft(leader).leads


def test_uncommitted_records_of_old_leader_are_replaced_by_successors(three: WholeCluster) -> None:
    old = three.active
    for other in (node for node in (1, 2, 3) if node != old):
        three.cut(old, other)
    lost = submit(three, old, 5)
    others = [node for node in (1, 2, 3) if node != old]
    new = three.until(lambda: next((node for node in others if three.raft(node).leads), None))
    assert outcome(three, submit(three, new, 6)) == 6
    assert isinstance(outcome(three, lost), KafkaError)
    for other in others:
        three.cut(old, other, up=True)
    three.until(lambda: values(three) == {"6"})


def test_quorum_recovers_after_all_nodes_are_killed(three: WholeCluster) -> None:
    outcome(three, submit(three, three.active, 5))
    for node in (1, 2, 3):
        three.kill(node)
    three.start()
    assert outcome(three, submit(three, three.active, 6)) == 6
    three.until(lambda: values(three) == {"6"})


FORGETFUL = {
    "metadata_log_max_record_bytes_between_snapshots": "300",
    "metadata_log_segment_bytes": str(8 << 20),
    "metadata_max_retention_bytes": "1",
}


def leave_behind(three: WholeCluster) -> int:
    """Submit commands until the leader's log starts at a snapshot; return the last value set."""
    leader, number = three.active, 0
    while three.raft(leader)._log.start_offset == 0:
        number += 1
        assert outcome(three, submit(three, leader, number)) == number
        three.let_pass(0.01)
        assert number < 200
    return number


@pytest.mark.parametrize("wipe", [False, True])
def test_lagging_follower_starts_from_leaders_snapshot(make: Callable[..., WholeCluster], wipe: bool) -> None:
    three = make(**FORGETFUL)
    behind = next(node for node in three.running if node != three.active)
    three.kill(behind)
    if wipe:
        three.wipe(behind)
    leader = three.active
    number = leave_behind(three)
    three.start(behind)
    controller, loop = three.raft(behind), three.hosts[behind].loop
    applied = present(loop).create_task(controller.until_applied(three.raft(leader).applied_offset))
    three.until(applied.done)
    assert values(three) == {str(number)}
    assert controller._log.start_offset > 0


def test_follower_resets_to_leaders_snapshot_after_its_own_completes(
    make: Callable[..., WholeCluster],
) -> None:
    three = make(**FORGETFUL)
    behind = next(node for node in three.running if node != three.active)
    for other in {1, 2, 3} - {behind}:
        three.cut(behind, other)
    number = leave_behind(three)
    controller, loop = three.raft(behind), three.hosts[behind].loop
    written = present(loop).create_future()

    async def take() -> None:
        await written
        controller._snapshots._task = None

    controller._snapshots._task = present(loop).create_task(take())
    for other in {1, 2, 3} - {behind}:
        three.cut(behind, other, up=True)
    three.let_pass(5)
    assert controller._log.start_offset == 0
    written.set_result(None)
    three.until(lambda: values(three) == {str(number)})
    assert controller._log.start_offset > 0
