"""Fetch, sent by follower replicas: records returned, replica state updated, delayed fetches completed."""

from __future__ import annotations

import pytest

from broker.replication.replica_state import NO_OFFSET
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from tests.unit.broker.handlers.test_fetch import fetched, offsets, query, wanted
from tests.unit.broker.node import Node


@pytest.fixture
def node(node: Node) -> Node:
    """Return a node where broker 1 is the leader; broker 2 is in the ISR and has the first of two records."""
    node.create("t", replicas=(1, 2))
    node.append("t")
    node.append("t")
    node.follower_fetch(node.partition("t"), 2, 1, 0)
    return node


def test_replica_reads_to_the_log_end_and_its_offset_advances_the_high_watermark(node: Node) -> None:
    partition = fetched(node, wanted(offset=1), replica_id=2)
    assert offsets(partition) == [1]
    fetched(node, wanted(offset=2), replica_id=2)
    assert node.partition("t").high_watermark == 2


def test_replica_id_is_in_replica_state_from_version_15(node: Node) -> None:
    state = FetchRequest.ReplicaState(replica_id=2, replica_epoch=1)
    assert offsets(fetched(node, wanted(offset=1), version=15, replica_state=state)) == [1]


def test_response_has_the_high_watermark_that_this_fetch_advanced(node: Node) -> None:
    assert fetched(node, wanted(offset=2), replica_id=2).high_watermark == 2


def test_new_high_watermark_does_not_complete_a_replica_fetch(node: Node) -> None:
    node.create("t3", replicas=(1, 2, 3))
    node.append("t3")
    waiting = query(node, {"t3": [wanted(offset=1)]}, max_wait_ms=500, replica_id=2)
    node.loop.call_later(0.1, node.follower_fetch, node.partition("t3"), 3, 1, 0)
    assert node.wait(waiting).responses[0].partitions[0].high_watermark == 1
    assert node.loop.time() == pytest.approx(0.5, abs=0.01)


def test_rule_3_fetch_offset_from_before_an_election_is_ignored_when_the_fetch_completes(node: Node) -> None:
    waiting = query(node, {"t": [wanted(offset=2)]}, max_wait_ms=500, replica_id=2)
    node.elect("t", 1)
    node.wait(waiting)
    assert node.partition("t").followers[2].log_end_offset == NO_OFFSET


def test_new_log_start_completes_a_replica_fetch(node: Node) -> None:
    request = {"t": [wanted(offset=2)]}
    session = node.wait(query(node, request, session_epoch=0, max_wait_ms=0, replica_id=2)).session_id
    waiting = query(node, {}, session_id=session, session_epoch=1, max_wait_ms=500, replica_id=2)
    node.loop.call_later(0.1, node.replicas.delete_records, node.partition("t"), 1)
    assert node.wait(waiting).responses[0].partitions[0].log_start_offset == 1
    assert node.loop.time() == pytest.approx(0.1, abs=0.01)


def test_replica_with_an_older_log_start_gets_the_new_one_again_at_once(node: Node) -> None:
    request = wanted(offset=2, log_start_offset=0)
    session = node.wait(query(node, {"t": [request]}, session_epoch=0, max_wait_ms=0, replica_id=2)).session_id
    node.replicas.delete_records(node.partition("t"), 1)
    for epoch in (1, 2):  # the follower drops the first response, as after a newer leader epoch
        again = query(node, {"t": [request]}, session_id=session, session_epoch=epoch, max_wait_ms=500, replica_id=2)
        assert node.wait(again).responses[0].partitions[0].log_start_offset == 1
    assert node.loop.time() == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("session_epoch", [-1, 0], ids=["without a session", "with a session"])
def test_fetch_of_a_replica_with_a_later_log_start_waits(node: Node, session_epoch: int) -> None:
    """The former leader and this replica may have deleted records that the new leader still has."""
    request = {"t": [wanted(offset=2, log_start_offset=1)]}
    waiting = query(node, request, session_epoch=session_epoch, max_wait_ms=500, replica_id=2)
    assert node.wait(waiting).responses[0].partitions[0].log_start_offset == 0
    assert node.loop.time() == pytest.approx(0.5, abs=0.01)


def test_new_leader_epoch_returns_unchanged_partitions_again(node: Node) -> None:
    [before, after] = [wanted(offset=2, current_leader_epoch=epoch) for epoch in (0, 1)]
    session = node.wait(query(node, {"t": [before]}, session_epoch=0, replica_id=2)).session_id
    assert node.wait(query(node, {"t": [before]}, session_id=session, session_epoch=1, replica_id=2)).responses == []
    node.elect("t", 1)
    again = node.wait(query(node, {"t": [after]}, session_id=session, session_epoch=2, replica_id=2))
    assert again.responses[0].partitions[0].high_watermark == 2


@pytest.mark.parametrize(("epoch", "code"), [(1, 6), (2, 0), (3, 0), (-1, 0)])
def test_rule_8_replica_with_a_stale_broker_epoch_is_refused(node: Node, epoch: int, code: int) -> None:
    node.register(2, "h", 1)
    state = FetchRequest.ReplicaState(replica_id=2, replica_epoch=epoch)
    assert fetched(node, wanted(offset=2), version=15, replica_state=state).error_code == code
    assert node.partition("t").high_watermark == (1 if code else 2)


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_broker_that_is_no_replica_is_refused(node: Node, epoch: int, code: ErrorCode) -> None:
    assert fetched(node, wanted(current_leader_epoch=epoch), replica_id=3).error_code == code


def test_replica_bytes_and_consumer_bytes_are_counted_separately(node: Node) -> None:
    topic_metrics = node.partition("t").topic_metrics
    copied = fetched(node, wanted(offset=1), replica_id=2)
    assert (topic_metrics.replication_bytes_out, topic_metrics.bytes_out) == (len(copied.records or b""), 0)
    node.follower_fetch(node.partition("t"), 2, 2, 0)
    consumed = fetched(node, wanted(offset=0))
    assert (topic_metrics.replication_bytes_out, topic_metrics.bytes_out) == (
        len(copied.records or b""),
        len(consumed.records or b""),
    )
