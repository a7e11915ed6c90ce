"""Heartbeats sent right after metadata is applied, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from broker.metadata.eager_heartbeats import EagerHeartbeats
from controller.image import MetadataImage
from controller.image_builder import apply_records
from protocol.errors import InvariantError
from protocol.records.metadata import BrokerRegistrationChangeRecord, NoOpRecord, PartitionRecord, TopicRecord
from protocol.schema import Message
from tests.unit.broker.node import VirtualLoop

TOPIC = TopicRecord(name="t", topic_id=b"t" * 16)
PARTITION = PartitionRecord(
    partition_id=0, topic_id=b"t" * 16, replicas=[1], isr=[1], removing_replicas=[], adding_replicas=[]
)
EMPTY = MetadataImage(cluster_id="cluster")


class Broker:
    """Broker 1, with the applied offset set by the test."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.applied = self.loop.create_future()
        self.waits_for: list[Any] = []
        self.hurried = 0
        self.prompt = EagerHeartbeats(1, self.loop, until_applied=self.until_applied, send_now=self.send_now)

    async def until_applied(self, offset: int) -> None:
        self.waits_for.append(offset)
        await self.applied

    def send_now(self) -> None:
        self.hurried += 1

    def take(self, *records: Message, offset: int = 5) -> None:
        image = apply_records(EMPTY, [], offset=offset, epoch=1)
        self.prompt.apply(EMPTY, image, records)
        self.turn()

    def turn(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0.01))


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.prompt.stop()
    made.turn()
    made.loop.close()


def shutting_down(broker_id: int, in_controlled_shutdown: int = 1) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=1, in_controlled_shutdown=in_controlled_shutdown
    )


def test_new_partitions_trigger_heartbeat_once_applied_by_all_subscribers(broker: Broker) -> None:
    broker.take(TOPIC, PARTITION)
    assert (broker.waits_for, broker.hurried) == ([5], 0)
    broker.applied.set_result(None)
    broker.turn()
    assert broker.hurried == 1


def test_shutdown_of_other_broker_triggers_heartbeat(broker: Broker) -> None:
    broker.applied.set_result(None)
    broker.take(shutting_down(2))
    assert broker.hurried == 1


@pytest.mark.parametrize("record", [NoOpRecord(), shutting_down(1), shutting_down(2, in_controlled_shutdown=0)])
def test_other_records_trigger_no_heartbeat(
    broker: Broker, record: BrokerRegistrationChangeRecord | NoOpRecord
) -> None:
    broker.applied.set_result(None)
    broker.take(record)
    assert broker.hurried == 0


def test_changes_during_apply_trigger_heartbeat_once_applied(broker: Broker) -> None:
    broker.take(PARTITION, offset=5)
    broker.take(PARTITION, offset=6)
    broker.take(PARTITION, offset=7)
    broker.applied.set_result(None)
    broker.turn()
    assert (broker.waits_for, broker.hurried) == ([5, 7], 2)
    broker.take(PARTITION, offset=8)
    assert broker.hurried == 3


def test_failed_metadata_loader_triggers_no_heartbeat(broker: Broker) -> None:
    broker.applied.set_exception(InvariantError("the metadata log is damaged"))
    broker.take(PARTITION)
    assert broker.hurried == 0
