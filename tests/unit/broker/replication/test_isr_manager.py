"""Broker 1 leads `t`; 2 and 3 are followers; the test answers in place of the controller."""

from __future__ import annotations

import asyncio

import pytest

from broker.replication.alter_partition_manager import MAX_BACKOFF_MS
from broker.replication.isr_manager import IsrManager
from broker.replication.partition import Partition
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from protocol.records.metadata import FenceBrokerRecord
from protocol.schema import Message
from tests.unit.broker.node import Node

LAG_MS = 1000


class Controller:
    """Receives the manager's requests."""

    def __init__(self, node: Node) -> None:
        self.requested: list[list[int]] = []
        self.answers: list[asyncio.Future[Message | None]] = []
        self.driver = IsrManager(
            node.loop,
            1,
            node.replicas,
            send_to_controller=self.send,
            broker_epoch=lambda: 1,
            lag_max_ms=LAG_MS,
        )
        node.broker.replication.isr.stop()
        node.broker.replication.isr = self.driver
        self._node = node

    def send(self, request: Message) -> asyncio.Future[Message | None]:
        assert isinstance(request, AlterPartitionRequest)
        request = AlterPartitionRequest.decode(request.encode(3), 3)
        self.requested += [
            [state.broker_id for state in wanted.new_isr_with_epochs]
            for topic in request.topics
            for wanted in topic.partitions
        ]
        self.answers.append(self._node.loop.create_future())
        return self.answers[-1]

    def answer(self, isr: list[int], partition_epoch: int, code: ErrorCode = ErrorCode.NONE) -> None:
        one = AlterPartitionResponse.Topic.Partition(
            partition_index=0, error_code=code, leader_id=1, leader_epoch=0, isr=isr, partition_epoch=partition_epoch
        )
        topic = AlterPartitionResponse.Topic(topic_id=self._node.partition("t").topic_id, partitions=[one])
        self.answers[-1].set_result(AlterPartitionResponse(topics=[topic]))

    def refuse(self) -> None:
        self.answer([], 0, ErrorCode.INELIGIBLE_REPLICA)


@pytest.fixture
def controller(node: Node) -> Controller:
    for broker in (2, 3):
        node.register(broker, "h", broker)
    node.create("t", replicas=(1, 2, 3))
    made = Controller(node)
    made.driver.start()
    return made


def acknowledge(node: Node, controller: Controller, broker: int, end: int) -> None:
    node.follower_fetch(node.partition("t"), broker, end, 0)
    controller.driver.follower_fetched(node.partition("t"), broker)


def test_lagging_follower_leaves_isr_in_next_check_and_records_commit(node: Node, controller: Controller) -> None:
    node.append("t")
    node.follower_fetch(node.partition("t"), 2, 1, 0)
    node.pass_time(1.6 * LAG_MS / 1000)
    assert controller.requested == [[1, 2]]
    assert node.partition("t").high_watermark == 0
    controller.answer([1, 2], 1)
    node.pass_time(0.01)
    assert node.partition("t").high_watermark == 1
    controller.driver.stop()


def test_isr_changes_of_one_loop_iteration_are_one_request(node: Node, controller: Controller) -> None:
    node.shrink("t", [1])
    node.create("u", replicas=(1, 2))
    node.commit()
    node.append("t")
    for broker in (2, 3):
        acknowledge(node, controller, broker, 1)
    node.pass_time(0.01)
    assert controller.requested == [[1, 2]]
    controller.answer([1, 2], 2)
    node.pass_time(0.01)
    assert controller.requested == [[1, 2], [1, 2, 3]]
    controller.driver.stop()


def test_high_watermark_waits_only_for_follower_about_to_join(node: Node, controller: Controller) -> None:
    node.shrink("t", [1])
    partition = node.partition("t")
    acknowledge(node, controller, 2, 0)
    partition.propose(None)
    node.append("t")
    assert partition.followers[2].awaited
    assert partition.high_watermark == 0
    node.commit(FenceBrokerRecord(id=2, epoch=2))
    controller.driver.check(partition)
    assert partition.high_watermark == 1
    controller.driver.stop()


def test_refused_follower_may_join_after_backoff(node: Node, controller: Controller) -> None:
    node.pass_time(0.1)
    node.shrink("t", [1])
    acknowledge(node, controller, 2, 0)
    node.pass_time(0.01)
    controller.refuse()
    node.pass_time(MAX_BACKOFF_MS / 1000)
    assert controller.requested == [[1, 2]]
    node.pass_time(0.01)
    assert controller.requested == [[1, 2]] * 2
    controller.driver.stop()


def test_records_waiting_for_refused_follower_are_committed(node: Node, controller: Controller) -> None:
    node.shrink("t", [1])
    acknowledge(node, controller, 2, 0)
    node.pass_time(0.01)
    node.append("t")
    node.commit(FenceBrokerRecord(id=2, epoch=2))
    controller.driver.check(node.partition("t"))
    assert node.partition("t").high_watermark == 0
    controller.refuse()
    node.pass_time(0.01)
    assert node.partition("t").high_watermark == 1
    controller.driver.stop()


@pytest.mark.parametrize("failure", [KafkaError(ErrorCode.UNSUPPORTED_VERSION, "too old"), None])
def test_failed_alter_partition_is_retried(node: Node, controller: Controller, failure: KafkaError | None) -> None:
    node.shrink("t", [1])
    acknowledge(node, controller, 2, 0)
    node.pass_time(0.01)
    if failure is None:
        controller.answers[0].cancel()
    else:
        controller.answers[0].set_exception(failure)
    node.pass_time(0.1)
    assert controller.requested == [[1, 2]] * 2
    controller.driver.stop()


def test_stopped_isr_manager_sends_nothing(node: Node, controller: Controller) -> None:
    node.append("t")
    controller.driver.stop()
    node.pass_time(3 * LAG_MS / 1000)
    controller.driver.check(node.partition("t"))
    node.pass_time(1)
    assert controller.requested == []


def test_failure_of_one_partition_is_reported_and_others_are_checked(
    node: Node, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.create("u", replicas=(1, 2))
    reported = []
    node.loop.set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
    for topic in "tu":
        node.append(topic)
    check = controller.driver.check

    def check_others(partition: Partition) -> None:
        if partition.topic == "t":
            raise RuntimeError(f"{partition} cannot be checked")
        check(partition)

    monkeypatch.setattr(controller.driver, "check", check_others)
    node.pass_time(1.6 * LAG_MS / 1000)
    assert reported == ["t-0 cannot be checked"] * 3
    assert controller.requested == [[1]]
    controller.driver.stop()


def test_many_partitions_are_checked_in_steps(node: Node, controller: Controller) -> None:
    node.create("many", partitions=600)
    assert len(list(controller.driver.check_all())) == 2
    controller.driver.stop()


def test_isr_check_of_many_partitions_yields_to_loop(node: Node, controller: Controller) -> None:
    node.create("many", partitions=600, replicas=(1, 2))
    for index in range(600):
        node.append("many", index=index)
    node.pass_time(1.6 * LAG_MS / 1000)
    assert 0 < len(controller.requested) < 600, "the first request left before all were checked"
    controller.answers[-1].set_result(None)
    node.pass_time(0.1)
    assert len(controller.requested) > 600
    controller.driver.stop()
