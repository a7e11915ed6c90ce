"""Fetch, sent by follower replicas: records returned, replica state updated, delayed fetches completed."""

from __future__ import annotations

import pytest

from broker.replication.replica_state import NO_OFFSET
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from tests.unit.broker.handlers.test_fetch import ask, fetched, offsets, wanted
from tests.unit.broker.node import Node


@pytest.fixture
def node(node: Node) -> Node:
    """Return a node where broker 1 is the leader; broker 2 is in the ISR and has the first of two records."""
    node.create("t", replicas=(1, 2))
    node.append("t")
    node.append("t")
    node.replicas.acknowledge(node.partition("t"), 2, 1, 0)
    return node


def test_a_replica_reads_to_the_end_and_so_acknowledges_what_is_before(node: Node) -> None:
    partition = fetched(node, wanted(offset=1), replica_id=2)
    assert offsets(partition) == [1]
    fetched(node, wanted(offset=2), replica_id=2)
    assert node.partition("t").high_watermark == 2


def test_a_replica_names_itself_in_its_state_from_version_15_on(node: Node) -> None:
    state = FetchRequest.ReplicaState(replica_id=2, replica_epoch=1)
    assert offsets(fetched(node, wanted(offset=1), version=15, replica_state=state)) == [1]


def test_a_replica_is_told_the_high_watermark_that_its_own_fetch_moved(node: Node) -> None:
    assert fetched(node, wanted(offset=2), replica_id=2).high_watermark == 2


def test_a_high_watermark_alone_does_not_end_a_replicas_wait(node: Node) -> None:
    node.create("t3", replicas=(1, 2, 3))
    node.append("t3")
    waiting = ask(node, {"t3": [wanted(offset=1)]}, max_wait_ms=500, replica_id=2)
    node.loop.call_later(0.1, node.replicas.acknowledge, node.partition("t3"), 3, 1, 0)
    assert node.wait(waiting).responses[0].partitions[0].high_watermark == 1
    assert node.loop.time() == pytest.approx(0.5, abs=0.01)


def test_rule_3_what_a_replica_said_before_an_election_counts_no_more_when_its_wait_ends(node: Node) -> None:
    waiting = ask(node, {"t": [wanted(offset=2)]}, max_wait_ms=500, replica_id=2)
    node.elect("t", 1)
    node.wait(waiting)
    assert node.partition("t").followers[2].log_end_offset == NO_OFFSET


def test_records_that_are_to_be_deleted_end_a_replicas_wait(node: Node) -> None:
    request = {"t": [wanted(offset=2)]}
    session = node.wait(ask(node, request, session_epoch=0, max_wait_ms=0, replica_id=2)).session_id
    waiting = ask(node, {}, session_id=session, session_epoch=1, max_wait_ms=500, replica_id=2)
    node.loop.call_later(0.1, node.replicas.delete_records, node.partition("t"), 1)
    assert node.wait(waiting).responses[0].partitions[0].log_start_offset == 1
    assert node.loop.time() == pytest.approx(0.1, abs=0.01)


def test_a_replica_that_has_them_still_is_told_again_at_once(node: Node) -> None:
    request = wanted(offset=2, log_start_offset=0)
    session = node.wait(ask(node, {"t": [request]}, session_epoch=0, max_wait_ms=0, replica_id=2)).session_id
    node.replicas.delete_records(node.partition("t"), 1)
    for epoch in (1, 2):  # the follower drops the first response, as after a newer leader epoch
        again = ask(node, {"t": [request]}, session_id=session, session_epoch=epoch, max_wait_ms=500, replica_id=2)
        assert node.wait(again).responses[0].partitions[0].log_start_offset == 1
    assert node.loop.time() == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("session_epoch", [-1, 0], ids=["without a session", "with a session"])
def test_a_replica_that_starts_later_than_the_leader_waits_as_others_do(node: Node, session_epoch: int) -> None:
    """The former leader and this replica may have deleted records that the new leader still has."""
    request = {"t": [wanted(offset=2, log_start_offset=1)]}
    waiting = ask(node, request, session_epoch=session_epoch, max_wait_ms=500, replica_id=2)
    assert node.wait(waiting).responses[0].partitions[0].log_start_offset == 0
    assert node.loop.time() == pytest.approx(0.5, abs=0.01)


def test_a_replica_is_told_again_what_it_was_told_in_an_earlier_leader_epoch(node: Node) -> None:
    [before, after] = [wanted(offset=2, current_leader_epoch=epoch) for epoch in (0, 1)]
    session = node.wait(ask(node, {"t": [before]}, session_epoch=0, replica_id=2)).session_id
    assert node.wait(ask(node, {"t": [before]}, session_id=session, session_epoch=1, replica_id=2)).responses == []
    node.elect("t", 1)
    again = node.wait(ask(node, {"t": [after]}, session_id=session, session_epoch=2, replica_id=2))
    assert again.responses[0].partitions[0].high_watermark == 2


@pytest.mark.parametrize(("epoch", "code"), [(1, 6), (2, 0), (3, 0), (-1, 0)])
def test_rule_8_a_replica_whose_broker_was_registered_anew_since_is_refused(node: Node, epoch: int, code: int) -> None:
    node.register(2, "h", 1)
    state = FetchRequest.ReplicaState(replica_id=2, replica_epoch=epoch)
    assert fetched(node, wanted(offset=2), version=15, replica_state=state).error_code == code
    assert node.partition("t").high_watermark == (1 if code else 2)


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_broker_without_a_replica_is_refused(node: Node, epoch: int, code: ErrorCode) -> None:
    assert fetched(node, wanted(current_leader_epoch=epoch), replica_id=3).error_code == code


def test_bytes_for_replicas_are_counted_apart_from_those_for_consumers(node: Node) -> None:
    traffic = node.partition("t").traffic
    copied = fetched(node, wanted(offset=1), replica_id=2)
    assert (traffic.replication_bytes_out, traffic.bytes_out) == (len(copied.records or b""), 0)
    node.replicas.acknowledge(node.partition("t"), 2, 2, 0)
    consumed = fetched(node, wanted(offset=0))
    assert (traffic.replication_bytes_out, traffic.bytes_out) == (
        len(copied.records or b""),
        len(consumed.records or b""),
    )
