"""Broker 1 follows `t`, which broker 2 leads; the test answers in place of broker 2."""

from __future__ import annotations

import asyncio

import pytest

from broker.replication.fetcher_state import FIRST_BACKOFF_MS, FetcherState, FetchLimits
from broker.replication.replica_fetcher import ReplicaFetcher
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.schema import Message
from tests.unit.broker.node import Node


class Leader:
    """Stands in for a `LeaderConnection`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.requested: list[tuple[Message, int]] = []
        self.answers: list[asyncio.Future[Message | None]] = []
        self.closed = False

    def call(self, request: Message, *, min_version: int = 0) -> asyncio.Future[Message | None]:
        self.requested.append((request, min_version))
        self.answers.append(self._loop.create_future())
        return self.answers[-1]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def leader(node: Node) -> Leader:
    return Leader(node.loop)


@pytest.fixture
def remarks() -> list[str]:
    return []


@pytest.fixture
def fetcher(node: Node, leader: Leader, remarks: list[str]) -> ReplicaFetcher:
    node.create("t", replicas=(1, 2), leader=2)
    machine = FetcherState(1, "test", FetchLimits(), node.replicas.save_log_starts, remarks.append)
    machine.follow(node.replicas.follower_replica(node.partition("t")))
    made = ReplicaFetcher(node.loop, machine, leader, lambda: 5, remarks.append)
    made.send_now()
    return made


ANSWER = FetchResponse(session_id=9, responses=[])


def test_changes_in_one_loop_iteration_share_one_fetch(node: Node, fetcher: ReplicaFetcher, leader: Leader) -> None:
    fetcher.send_now()
    node.pass_time(0.001)
    ((request, min_version),) = leader.requested
    assert isinstance(request, FetchRequest)
    assert (request.replica_state.replica_epoch, min_version) == (5, 17)


def test_response_triggers_next_fetch(node: Node, fetcher: ReplicaFetcher, leader: Leader) -> None:
    node.pass_time(0.001)
    leader.answers[0].set_result(ANSWER)
    node.pass_time(0.001)
    assert len(leader.requested) == 2
    assert fetcher.state.due_ms is None


def test_lost_fetch_is_retried_after_backoff(node: Node, fetcher: ReplicaFetcher, leader: Leader) -> None:
    node.pass_time(0.001)
    leader.answers[0].set_result(None)
    node.pass_time(FIRST_BACKOFF_MS / 2000)
    assert len(leader.requested) == 1
    node.pass_time(FIRST_BACKOFF_MS / 1000)
    assert len(leader.requested) == 2
    assert not leader.closed
    fetcher.close()


def test_leader_without_common_version_is_logged(
    node: Node, fetcher: ReplicaFetcher, leader: Leader, remarks: list[str]
) -> None:
    node.pass_time(0.001)
    leader.answers[0].set_exception(KafkaError(ErrorCode.UNSUPPORTED_VERSION, "too old"))
    node.pass_time(1)
    assert remarks == ["UNSUPPORTED_VERSION: too old"]
    assert len(leader.requested) == 2
    fetcher.close()


def test_cancelled_fetch_counts_as_lost(node: Node, fetcher: ReplicaFetcher, leader: Leader) -> None:
    node.pass_time(0.001)
    leader.answers[0].cancel()
    node.pass_time(1)
    assert len(leader.requested) == 2
    fetcher.close()


def test_stopped_fetcher_sends_nothing_and_drops_responses(node: Node, fetcher: ReplicaFetcher, leader: Leader) -> None:
    node.pass_time(0.001)
    fetcher.close()
    assert leader.closed
    leader.answers[0].set_result(ANSWER)
    fetcher.send_now()
    node.pass_time(1)
    assert len(leader.requested) == 1
