"""Connections to the quorum's voters, and when a lost voter is reported as gone; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from broker.metadata.raft_channel import RaftChannel
from broker.network.network_client import NetworkClient, NetworkClientLimits
from controller.raft.messages import OutboundRequest
from protocol.api import ApiKey
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.vote import VoteRequest, VoteResponse
from tests.unit.broker.peer_node import Network

GRACE_S = 0.3


class Quorum:
    """The channel of one node and the events it reports; a single simulated node answers for all voters."""

    def __init__(self) -> None:
        self.network = Network()
        self.network.node.reply = lambda header, _: (
            FetchResponse(responses=[]) if header.api_key is ApiKey.FETCH else VoteResponse(topics=[])
        )
        self.connected: list[Any] = []
        self.answers: list[Any] = []
        self.gone: list[Any] = []
        self.peers = RaftChannel(
            self.connect,
            self.network,
            grace_s=GRACE_S,
            on_response=lambda request, response: self.answers.append((request, response)),
            on_disconnect=self.gone.append,
        )

    def connect(self, node_id: int, on_lost: Callable[[], None], on_refused: Callable[[], None]) -> NetworkClient:
        self.connected.append(node_id)
        limits = NetworkClientLimits(request_timeout_ms=2000, backoff_ms=20, max_backoff_ms=200)
        return NetworkClient(
            self.network,
            ("127.0.0.1", 9093),
            "node 1",
            Random(1),
            limits,
            on_lost=on_lost,
            on_refused=on_refused,
        )

    def let_pass(self, seconds: float) -> None:
        self.network.run_until_complete(asyncio.sleep(seconds))

    def send(self, message: FetchRequest | VoteRequest, to: int = 2) -> OutboundRequest:
        request = OutboundRequest(to, message)
        self.peers.send(request)
        return request

    def fetch(self, to: int = 2) -> OutboundRequest:
        sent = self.send(FetchRequest(max_wait_ms=1, min_bytes=0, topics=[], forgotten_topics_data=[]), to)
        self.let_pass(0.01)
        return sent

    def vote(self, to: int = 2) -> OutboundRequest:
        sent = self.send(VoteRequest(voter_id=2, topics=[]), to)
        self.let_pass(0.01)
        return sent

    def lose(self, *, ended: bool = False) -> None:
        """Break all connections and let new ones fail: no route, or refused if the process `ended`."""
        self.network.down, self.network.unreachable = ended, not ended
        for line in self.network.lines:
            if not line.aborted:
                line.protocol.connection_lost(None)
                line.aborted = True


@pytest.fixture
def quorum() -> Iterator[Quorum]:
    made = Quorum()
    yield made
    made.peers.close()
    made.network.close()


def test_each_request_is_answered_once(quorum: Quorum) -> None:
    first, second = quorum.fetch(), quorum.fetch()
    assert [request for request, _ in quorum.answers] == [first, second]
    assert all(isinstance(answer, FetchResponse) for _, answer in quorum.answers)


def test_vote_does_not_wait_behind_parked_fetch(quorum: Quorum) -> None:
    quorum.network.node.reply = lambda header, _: VoteResponse(topics=[]) if header.api_key is ApiKey.VOTE else []
    quorum.fetch()
    quorum.vote()
    assert [type(answer) for _, answer in quorum.answers] == [VoteResponse]
    assert quorum.connected == [2, 2]


def test_connections_are_opened_on_first_use_and_kept(quorum: Quorum) -> None:
    assert quorum.connected == []
    for node_id in (2, 3, 2):
        quorum.fetch(node_id)
    assert quorum.connected == [2, 3]


def test_request_to_unreachable_node_gets_no_response(quorum: Quorum) -> None:
    quorum.network.down = True
    sent = quorum.fetch()
    quorum.let_pass(1)
    assert quorum.answers == [(sent, None)]


def test_unsupported_request_is_logged_and_gets_no_response(quorum: Quorum, caplog: pytest.LogCaptureFixture) -> None:
    quorum.network.node.versions.pop(ApiKey.VOTE)
    sent = quorum.vote()
    assert quorum.answers == [(sent, None)]
    assert "Request to node 2 failed" in caplog.text


def test_unsupported_request_is_logged_once_until_next_response(
    quorum: Quorum, caplog: pytest.LogCaptureFixture
) -> None:
    quorum.network.node.versions.pop(ApiKey.VOTE)
    for _ in range(3):
        quorum.vote()
    assert caplog.text.count("Request to node") == 1
    quorum.fetch()
    quorum.vote()
    assert caplog.text.count("Request to node") == 2


def test_lost_voter_is_gone_after_grace(quorum: Quorum) -> None:
    quorum.fetch()
    quorum.lose()
    quorum.let_pass(GRACE_S - 0.01)
    assert quorum.gone == []
    quorum.let_pass(0.02)
    assert quorum.gone == [2]


def test_voter_that_returns_within_grace_is_not_gone(quorum: Quorum) -> None:
    quorum.fetch()
    quorum.lose()
    quorum.let_pass(0.1)
    quorum.network.unreachable = False
    quorum.fetch()
    quorum.let_pass(2)
    assert quorum.gone == []


def test_lost_voter_whose_process_ended_is_gone_immediately(quorum: Quorum) -> None:
    quorum.fetch()
    quorum.let_pass(1)
    quorum.lose(ended=True)
    quorum.let_pass(0.05)
    assert quorum.gone == [2]
    assert quorum.peers.lost_at_ms() == {2: 0}
    quorum.let_pass(2)
    assert quorum.gone == [2]


def test_fetch_from_new_leader_clears_lost_voters(quorum: Quorum) -> None:
    quorum.fetch(to=2)
    quorum.lose(ended=True)
    quorum.let_pass(0.05)
    assert quorum.peers.lost_at_ms() == {2: 0}
    quorum.network.down = False
    quorum.fetch(to=3)
    assert quorum.peers.lost_at_ms() == {}


def test_voter_that_was_never_reached_is_not_gone(quorum: Quorum) -> None:
    quorum.network.down = True
    quorum.fetch()
    quorum.let_pass(2)
    assert quorum.gone == []


def test_loss_of_vote_connection_makes_no_voter_gone(quorum: Quorum) -> None:
    quorum.vote()
    quorum.lose()
    quorum.let_pass(2)
    assert quorum.gone == []


def test_unreachable_voter_is_reported_with_time_of_loss(quorum: Quorum) -> None:
    quorum.fetch()
    quorum.let_pass(1)
    quorum.lose()
    lost_ms = int(quorum.network.time() * 1000)
    quorum.let_pass(2)
    assert quorum.peers.lost_at_ms() == {2: lost_ms}
    quorum.network.unreachable = False
    quorum.fetch()
    quorum.let_pass(1)
    assert quorum.peers.lost_at_ms() == {}


def test_voter_that_answered_vote_after_loss_is_not_unreachable(quorum: Quorum) -> None:
    quorum.fetch()
    quorum.lose()
    quorum.let_pass(2)
    quorum.network.unreachable = False
    quorum.vote()
    assert quorum.peers.lost_at_ms() == {}


def test_closed_channel_reports_no_voter_as_gone(quorum: Quorum) -> None:
    quorum.fetch()
    quorum.lose()
    quorum.peers.close()
    quorum.let_pass(2)
    assert quorum.gone == []
