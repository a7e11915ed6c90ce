"""Order in which a Raft node's Ready is performed: on a real disk, without other nodes, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.metadata.controller_event_queue import ControllerEventQueue
from broker.metadata.metadata_loader import MetadataLoader
from broker.metadata.node_recovery import recover_node
from broker.metadata.ready_performer import ReadyPerformer
from broker.metadata.snapshot_generator import SnapshotGenerator
from broker.runtime.cooperative import SLICE
from broker.runtime.executors import thread_pool
from broker.settings import Settings, check_settings
from controller.commands.controller_result import ControllerResult
from controller.image import MetadataImage
from controller.raft.log import SnapshotId
from controller.raft.messages import NO_NODE, Ready, RequestReceived, ResponseReceived, SnapshotPart
from controller.raft.wire import LeaderAndEpoch, vote_response
from controller.snapshot import encode_snapshot
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchResponse
from protocol.messages.vote import VoteResponse
from protocol.primitives import Buffer
from protocol.records.metadata import ConfigRecord, NoOpRecord, decode_metadata_record
from protocol.schema import Message
from storage.log_directory import LogDirectory
from tests.disks import FaultyDisk
from tests.typed import instance
from tests.unit.broker.held_threads import block_default_executor
from tests.unit.broker.node import VirtualLoop
from tests.unit.broker.whole_cluster import CONTROLLER, node_settings
from tests.unit.controller.lone_voter import fetch, vote

ALONE = check_settings({})
OF_THREE = node_settings(1, dict.fromkeys((1, 2, 3), CONTROLLER))


class Token:
    """Stands in for a command's future: records the value of `seen` when the result is set."""

    def __init__(self, seen: Callable[..., object]) -> None:
        self._seen = seen
        self.noted: Any = None

    def done(self) -> bool:
        return self.noted is not None

    def set_result(self, response: FetchResponse | VoteResponse) -> None:
        self.noted = (response, self._seen())


class Node:
    """A Raft node, its files, and the effects of its Ready."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.loop = VirtualLoop()
        self.disk = FaultyDisk()
        self.directory = LogDirectory(self.disk, str(path))
        self.directory.open()
        image = MetadataImage(cluster_id="c")
        self.log, stored, self.node = recover_node(
            self.disk, self.directory, settings, image, random=Random(1), wall_clock_ms=1, now_ms=0
        )
        self.commands = ControllerEventQueue(self.loop)
        self.sent: list[Any] = []
        self.failed: list[Any] = []
        self.metadata = MetadataLoader("c", self.commands, self.loop, applied=lambda: None, failed=self.failed.append)
        self.metadata.begin(self.log, stored)
        self.effects = ReadyPerformer(
            self.node,
            self.log,
            self.directory,
            metadata=self.metadata,
            snapshots=SnapshotGenerator(
                settings,
                self.loop,
                thread_pool("raft"),
                lambda: 1,
                stored=self.node.snapshot_taken,
                failed=self.failed.append,
            ),
            commands=self.commands,
            send=lambda request: self.sent.append((request, self.log.read_quorum_state())),
            loop=self.loop,
            executor=thread_pool("raft"),
            now_ms=lambda: 7,
        )

    def perform(self) -> None:
        """Perform until nothing is ready."""
        while (ready := self.node.ready()) is not None:
            self.loop.run_until_complete(self.effects.perform(ready))
        self.loop.run_until_complete(self.metadata.finish())

    def close(self) -> None:
        self.log.close(1)
        self.loop.close()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[Settings], Node]]:
    made = []

    def make(settings: Settings) -> Node:
        made.append(Node(tmp_path, settings))
        return made[-1]

    yield make
    for node in made:
        assert not node.failed
        node.close()


def test_new_epoch_of_sole_voter_is_stored_committed_and_applied(make: Callable[[Settings], Node]) -> None:
    alone = make(ALONE)
    alone.node.campaign()
    alone.perform()
    assert alone.log.read_quorum_state().leader_id == 1
    assert alone.metadata.next_offset == alone.log.end_offset > 0
    assert alone.effects.appended_ms == 7


def test_vote_is_sent_after_it_is_durable(make: Callable[[Settings], Node]) -> None:
    one = make(OF_THREE)
    token = Token(one.log.read_quorum_state)
    one.node.step(RequestReceived(token, vote(2, 3)), 0)
    one.perform()
    response, stored = token.noted
    assert response.topics[0].partitions[0].vote_granted
    assert (stored.epoch, stored.voted_id) == (3, 2)


def test_vote_does_not_wait_for_default_executor(
    make: Callable[[Settings], Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make(OF_THREE)
    block_default_executor(one.loop, monkeypatch)
    token = Token(one.log.read_quorum_state)
    one.node.step(RequestReceived(token, vote(2, 3)), 0)
    one.perform()
    assert token.noted[0].topics[0].partitions[0].vote_granted


def test_entries_do_not_wait_for_default_executor(
    make: Callable[[Settings], Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = make(ALONE)
    block_default_executor(alone.loop, monkeypatch)
    alone.node.campaign()
    alone.perform()
    assert alone.metadata.next_offset == alone.log.end_offset > 0


def test_snapshot_does_not_wait_for_default_executor(
    make: Callable[[Settings], Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make(OF_THREE)
    block_default_executor(one.loop, monkeypatch)
    snapshot, config = (
        SnapshotId(100, 1),
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5"),
    )
    data = b"".join(encode_snapshot([config], epoch=1, now_ms=1, last_timestamp_ms=1, voters=one.node.voters))
    ready = Ready(None, (), 100, snapshot_parts=(SnapshotPart(snapshot, 0, data),), reset_to_snapshot=snapshot)
    one.loop.run_until_complete(asyncio.wait_for(one.effects.perform(ready), 60))
    assert one.metadata.image.configs(2, "t") == {"retention.ms": "5"}


def test_vote_requests_are_sent_after_own_vote_is_durable(make: Callable[[Settings], Node]) -> None:
    one = make(OF_THREE)
    one.node.campaign()
    one.perform()
    assert [(request.to, stored.voted_id) for request, stored in one.sent] == [(2, 1), (3, 1)]


def test_followers_receive_records_before_leader_has_synced_them(make: Callable[[Settings], Node]) -> None:
    one = make(OF_THREE)
    one.node.campaign()
    one.perform()
    granted = vote_response(LeaderAndEpoch(NO_NODE, one.node.epoch), granted=True)
    one.node.step(ResponseReceived(one.sent[0][0], granted), 0)
    one.perform()
    epoch, end_offset = one.node.epoch, one.node.end_offset
    token = Token(lambda: len(one.disk.called("sync")))
    one.node.step(RequestReceived(token, fetch(2, epoch, epoch, end_offset, high_watermark=end_offset)), 0)
    one.perform()
    assert not token.done()
    syncs = len(one.disk.called("sync"))
    one.node.propose([NoOpRecord()])
    one.perform()
    response, syncs_then = token.noted
    assert response.responses[0].partitions[0].records
    assert syncs_then == syncs < len(one.disk.called("sync"))


def test_large_snapshot_is_decoded_on_loop_in_steps(
    make: Callable[[Settings], Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make(OF_THREE)
    records = [
        ConfigRecord(resource_type=2, resource_name=f"t{number}", name="retention.ms", value="5")
        for number in range(5_000)
    ]
    snapshot = SnapshotId(100, 1)
    data = b"".join(encode_snapshot(records, epoch=1, now_ms=1, last_timestamp_ms=1, voters=one.node.voters))
    decode, run_in_executor = decode_metadata_record, one.loop.run_in_executor
    in_thread = decoded = turns = 0

    def in_executor(executor: object, function: Callable[..., Any], *args: object) -> asyncio.Future[Any]:
        nonlocal in_thread
        before = decoded
        result = run_in_executor(executor, function, *args)
        in_thread += decoded - before
        return result

    def counted(frame: Buffer) -> Message:
        nonlocal decoded
        decoded += 1
        one.loop._jumping.passed_s += 0.00002
        return decode(frame)

    def count_turns() -> None:
        nonlocal turns
        turns += 1
        one.loop.call_soon(count_turns)

    monkeypatch.setattr("controller.batches.decode_metadata_record", counted)
    monkeypatch.setattr(one.loop, "run_in_executor", in_executor)
    one.loop.call_soon(count_turns)
    ready = Ready(None, (), 100, snapshot_parts=(SnapshotPart(snapshot, 0, data),), reset_to_snapshot=snapshot)
    one.loop.run_until_complete(one.effects.perform(ready))
    assert one.metadata.image.configs(2, "t4999") == {"retention.ms": "5"}
    assert (decoded, in_thread) == (5_000, 0)
    assert turns >= 5_000 * 0.00002 / (2 * SLICE.seconds)


def test_cancelled_command_gets_no_response(make: Callable[[Settings], Node]) -> None:
    one = make(OF_THREE)
    token = Token(lambda: None)
    token.noted = "gone"
    one.node.step(RequestReceived(token, vote(2, 3)), 0)
    one.perform()
    assert token.noted == "gone"


def test_request_for_other_cluster_is_logged(
    make: Callable[[Settings], Node], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    one = make(OF_THREE)
    request = vote(2, 3)
    request.cluster_id = "other"
    one.node.step(RequestReceived(Token(lambda: None), request), 0)
    one.perform()
    assert "for cluster other" in caplog.text


def test_full_disk_refuses_command_and_drops_its_records(
    make: Callable[[Settings], Node],
) -> None:
    alone = make(ALONE)
    alone.node.campaign()
    alone.perform()
    end_offset = alone.node.end_offset
    alone.disk.full = True
    answer = alone.commands.submit(lambda _: ControllerResult((NoOpRecord(),), "done"))
    alone.commands.decide(alone.node, alone.metadata.image)
    alone.perform()
    alone.disk.full = False
    assert instance(KafkaError, answer.exception()).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert alone.node.end_offset == alone.log.end_offset == end_offset
