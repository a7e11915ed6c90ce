"""Directory assignments that a broker sends to the controller (KIP-858): virtual time, a scripted controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from broker.log_dirs.assignments_manager import AssignmentsManager
from broker.monitoring.topic_stats import TopicStats
from broker.replication.partition import Partition
from controller.image import NO_LEADER, MetadataImage
from controller.image_builder import apply_records
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from protocol.records.metadata import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from protocol.schema import Message
from storage.disk import OsDisk
from storage.log.config import LogConfig
from storage.log_manager import LogManager
from tests.logs import TOPIC_ID, fill
from tests.unit.broker.node import VirtualLoop

NODE, OTHER = 1, 2
GONE = b"g" * 16


class Reported:
    """A broker with one replica per partition, and a controller that records the requests."""

    def __init__(self, path: Path) -> None:
        self.loop = VirtualLoop()
        self.logs = LogManager(OsDisk(), [f"{path}/a", f"{path}/b"], LogConfig(), now_ms=lambda: 0, random=Random(1))
        self.logs.open()
        self.logs.format("cluster", NODE)
        self.image = MetadataImage(cluster_id="cluster")
        self.replicas: list[Partition] = []
        self.requests: list[AssignReplicasToDirsRequest] = []
        self.answers: list[ErrorCode] = []
        self.assignments = AssignmentsManager(NODE, lambda: 7, self.logs, self.call, self.loop)
        self.apply(TopicRecord(name="t", topic_id=TOPIC_ID))

    async def call(self, request: Message, _timeout_s: float) -> AssignReplicasToDirsResponse:
        assert isinstance(request, AssignReplicasToDirsRequest)
        self.requests.append(request)
        code = self.answers.pop(0) if self.answers else ErrorCode.NONE
        if code is ErrorCode.REQUEST_TIMED_OUT:
            raise KafkaError(code, "no answer")
        return AssignReplicasToDirsResponse(error_code=code, directories=[])

    def apply(self, *records: object) -> None:
        before = self.image
        self.image = apply_records(before, records, offset=before.offset + len(records), epoch=1)
        self.assignments.apply(before, self.image, records)

    def partition(self, known: bytes, *replicas: int, leader: int = NO_LEADER, records: int = 0) -> Partition:
        """Place a partition in directories with ids `known`; the broker's log is in its first directory."""
        index = len(self.replicas)
        self.place(index, known, *replicas, leader=leader)
        log = self.logs.create("t", TOPIC_ID, index, LogConfig(), self.here)
        fill(log, records)
        self.replicas.append(Partition(NODE, "t", TOPIC_ID, index, log, TopicStats().of("t")))
        return self.replicas[-1]

    def place(self, index: int, known: bytes, *replicas: int, leader: int) -> None:
        """Set a partition's directory ids in the metadata to `known`."""
        placed = PartitionRecord(
            partition_id=index,
            topic_id=TOPIC_ID,
            replicas=list(replicas),
            isr=[NODE],
            leader=leader,
            removing_replicas=[],
            adding_replicas=[],
            directories=[known] * len(replicas),
        )
        self.apply(placed)

    @property
    def here(self) -> bytes:
        found = self.logs.directories[0].directory_id
        assert found is not None
        return found

    def look(self) -> list[list[int]]:
        """Check the assignments and let time pass; return the partitions that each request named."""
        self.assignments.report_differences(self.image, self.replicas)
        return self.reported()

    def reported(self) -> list[list[int]]:
        self.let_pass(0.1)
        requests, self.requests = self.requests, []
        assert all((one.broker_id, one.broker_epoch) == (NODE, 7) for one in requests)
        assert all(home.id == self.here for one in requests for home in one.directories)
        return [
            [
                requested.partition_index
                for home in one.directories
                for topic in home.topics
                for requested in topic.partitions
            ]
            for one in requests
        ]

    def let_pass(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Reported]:
    made = Reported(tmp_path)
    yield made
    made.assignments.stop()
    made.let_pass(0)
    made.loop.close()
    made.logs.close()


def test_only_replicas_in_other_dirs_than_assigned_are_reported(broker: Reported) -> None:
    other = broker.logs.directories[1].directory_id
    assert other is not None
    for known in (broker.here, other, broker.here, GONE):
        broker.partition(known, NODE, OTHER, leader=OTHER)
    assert broker.look() == [[1, 3]]


def test_many_assignments_are_sent_in_several_requests(broker: Reported) -> None:
    assignments = {(TOPIC_ID, index): broker.here for index in range(1001)}
    broker.assignments.report(assignments)
    assert [len(named) for named in broker.reported()] == [1000, 1]


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER])
def test_refused_assignment_is_retried(broker: Reported, code: ErrorCode) -> None:
    broker.partition(GONE, NODE, OTHER, leader=OTHER)
    broker.answers = [code, code]
    assert broker.look() == [[0]]
    broker.let_pass(3)
    assert broker.reported() == [[0], [0]]


def test_assignment_error_is_logged_once_until_it_changes(broker: Reported, caplog: pytest.LogCaptureFixture) -> None:
    broker.partition(GONE, NODE, OTHER, leader=OTHER)
    broker.answers = [ErrorCode.STALE_BROKER_EPOCH] * 3 + [ErrorCode.NOT_CONTROLLER] * 2
    broker.look()
    broker.let_pass(10)
    broker.answers = [ErrorCode.NOT_CONTROLLER]
    broker.assignments.report({(TOPIC_ID, 0): broker.here})
    broker.let_pass(10)
    assert [record.getMessage().split(": ")[1] for record in caplog.records] == [
        "STALE_BROKER_EPOCH",
        "NOT_CONTROLLER",
        "NOT_CONTROLLER",
    ]


def test_assignment_of_deleted_topic_is_not_sent(broker: Reported) -> None:
    broker.partition(GONE, NODE, OTHER)
    broker.look()
    broker.apply(RemoveTopicRecord(topic_id=TOPIC_ID), TopicRecord(name="t", topic_id=TOPIC_ID))
    broker.place(0, GONE, NODE, OTHER, leader=OTHER)
    assert broker.reported() == []


def test_empty_replacement_of_lost_log_is_not_reported_without_leader(broker: Reported) -> None:
    """Rule 28: it does not count as in sync, though the metadata still places the replica in the lost directory."""
    broker.partition(GONE, NODE, OTHER)
    assert broker.look() == []
    broker.apply(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[NODE]))
    assert broker.reported() == []
    broker.apply(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=OTHER))
    assert broker.reported() == [[0]]
    broker.apply(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=NO_LEADER))
    assert broker.reported() == []


@pytest.mark.parametrize(
    "place",
    [
        lambda broker: broker.partition(GONE, NODE),
        lambda broker: broker.partition(GONE, NODE, OTHER, records=1),
        lambda broker: broker.partition(broker.logs.directories[1].directory_id, NODE, OTHER),
    ],
    ids=["no other replica has any", "it was moved by hand", "its directory is there"],
)
def test_replica_without_lost_records_is_reported_immediately(
    broker: Reported, place: Callable[[Reported], Partition]
) -> None:
    place(broker)
    assert broker.look() == [[0]]


def test_stopped_assignments_manager_sends_nothing(broker: Reported) -> None:
    broker.answers = [ErrorCode.NOT_CONTROLLER]
    broker.partition(GONE, NODE, OTHER, leader=OTHER)
    broker.look()
    broker.assignments.stop()
    broker.assignments.report({(TOPIC_ID, 0): broker.here})
    broker.let_pass(3)
    assert broker.reported() == []
