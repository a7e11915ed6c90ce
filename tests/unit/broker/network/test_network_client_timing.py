"""`NetworkClient`: timeouts, backoff and logging, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from broker.network.network_client import NetworkClient, NetworkClientLimits
from protocol.api import ApiKey
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.messages.vote import VoteResponse
from tests.unit.broker.peer_node import Line, Network, vote, warnings


@pytest.fixture
def network() -> Iterator[Network]:
    loop = Network()
    yield loop
    loop.close()


def test_request_timeout_closes_the_connection(network: Network, caplog: pytest.LogCaptureFixture) -> None:
    peer = network.peer()
    assert network.run_until_complete(peer.call(vote())) is not None
    network.silent = True
    first, second = peer.call(vote()), peer.call(vote(), timeout_ms=5000)
    assert network.run_until_complete(first) is None
    assert network.time() == pytest.approx(2.0)
    assert second.result() is None, "what comes next could not be distinguished from the late answer"
    assert network.lines[0].aborted
    assert "no response to Vote within 2000 ms" in warnings(caplog)[0]


def test_request_may_have_a_longer_timeout(network: Network) -> None:
    peer = network.peer()
    network.run_until_complete(peer.call(vote()))
    network.silent = True
    assert network.run_until_complete(peer.call(vote(), timeout_ms=7000)) is None
    assert network.time() == pytest.approx(7.0)


def test_requests_waiting_for_a_connection_time_out(network: Network) -> None:
    network.hanging = True
    peer = network.peer(connect_timeout_ms=60_000)
    assert network.run_until_complete(peer.call(vote())) is None
    assert network.time() == pytest.approx(2.0)
    assert network.attempts == [0.0]
    peer.close()


@pytest.mark.parametrize("kind", ["hanging", "silent"])
def test_connection_attempt_times_out(network: Network, kind: str) -> None:
    setattr(network, kind, True)
    peer = network.peer(connect_timeout_ms=500)
    assert network.run_until_complete(peer.call(vote())) is None
    assert network.time() == pytest.approx(0.5)
    setattr(network, kind, False)
    assert network.run_until_complete(peer.call(vote())) == VoteResponse(topics=[])


def test_attempts_back_off_exponentially_with_jitter_up_to_a_limit(network: Network) -> None:
    network.down = True
    peer = network.peer(backoff_ms=100, max_backoff_ms=1000)
    for _ in range(7):
        assert network.run_until_complete(peer.call(vote())) is None
    pauses = [later - earlier for earlier, later in zip(network.attempts, network.attempts[1:], strict=False)]
    for pause, nominal in zip(pauses, (0.1, 0.2, 0.4, 0.8, 1.0, 1.0), strict=True):
        assert 0.8 * nominal <= pause <= 1.2 * nominal + 0.001
    assert (
        len({round(pause / nominal, 6) for pause, nominal in zip(pauses, (0.1, 0.2, 0.4, 0.8, 1, 1), strict=True)}) > 3
    )


def test_unreachable_node_is_logged_once_per_outage_and_not_at_the_first_attempts(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    peer = network.peer(backoff_ms=100, max_backoff_ms=1000)
    for _ in range(2):
        network.down = True
        caplog.clear()
        began = network.time()
        while network.time() - began < 0.8:
            assert warnings(caplog) == [], "it may be about to start"
            network.run_until_complete(peer.call(vote()))
        for _ in range(5):
            network.run_until_complete(peer.call(vote()))
        assert [f"Cannot connect to {peer}: " in warning for warning in warnings(caplog)] == [True]
        network.down = False
        assert network.run_until_complete(peer.call(vote())) is not None
        network.lines[-1].protocol.connection_lost(None)


@pytest.mark.parametrize("loss_level", [logging.INFO, logging.DEBUG])
def test_lost_connection_is_logged_with_node_role_and_reason(
    network: Network, caplog: pytest.LogCaptureFixture, loss_level: int
) -> None:
    caplog.set_level("INFO")
    peer = NetworkClient(
        network,
        ("a", 1),
        "node 1",
        Random(1),
        NetworkClientLimits(1000, 1000, 100, 1000, 1 << 20),
        node_id=2,
        role="controller",
        loss_level=loss_level,
    )
    assert network.run_until_complete(peer.call(vote())) is not None
    network.lines[-1].protocol.connection_lost(ConnectionResetError(104, "Connection reset by peer"))
    logged = ["Connection to controller 2 at a:1 lost: Connection reset by peer"]
    assert caplog.messages == (logged if loss_level == logging.INFO else [])


def test_success_resets_the_backoff(network: Network) -> None:
    network.down = True
    peer = network.peer(backoff_ms=100, max_backoff_ms=10_000)
    for _ in range(5):
        network.run_until_complete(peer.call(vote()))
    network.down = False
    assert network.run_until_complete(peer.call(vote())) is not None
    broke_at = network.time()
    network.lines[-1].protocol.connection_lost(None)
    assert network.run_until_complete(peer.call(vote())) is not None
    assert 0.08 <= network.attempts[-1] - broke_at <= 0.121


def test_another_address_is_tried_at_once(network: Network) -> None:
    network.down = True
    peer = network.peer(backoff_ms=5000, max_backoff_ms=5000)
    network.run_until_complete(peer.call(vote()))
    network.down = False
    peer.address = ("127.0.0.1", 9094)
    assert network.run_until_complete(peer.call(vote())) is not None
    assert network.time() < 0.1


def test_request_cancelled_before_sending_is_not_sent(network: Network) -> None:
    peer = network.peer()
    given_up, other = peer.call(vote(1)), peer.call(vote(2))
    given_up.cancel()
    network.run_until_complete(other)
    assert network.node.requested == [vote(2)]


def test_request_cancelled_after_sending_leaves_others_intact(network: Network) -> None:
    peer = network.peer()
    network.run_until_complete(peer.call(vote(1)))
    given_up, other = peer.call(vote(2)), peer.call(vote(3))
    given_up.cancel()
    assert network.run_until_complete(other) == VoteResponse(topics=[])
    assert network.node.requested == [vote(1), vote(2), vote(3)]


def test_connection_established_after_the_timeout_is_closed(network: Network) -> None:
    network.hanging = True
    peer = network.peer(connect_timeout_ms=100)
    network.run_until_complete(peer.call(vote()))
    network.hanging = False
    made: list[Any] = []

    async def late(factory: Any, *_: Any, **__: Any) -> Any:
        protocol = factory()
        made.append(Line(network, protocol))
        peer.close()
        protocol.connection_made(made[0])

    network.create_connection = late  # type: ignore[method-assign]  # replaced for this test
    assert network.run_until_complete(peer.call(vote())) is None
    assert made[0].aborted


def test_each_response_is_decoded_with_its_own_api(network: Network) -> None:
    network.node.reply = lambda header, _: (
        BrokerHeartbeatResponse() if header.api_key is ApiKey.BROKER_HEARTBEAT else VoteResponse(topics=[])
    )
    peer = network.peer()
    heartbeat = BrokerHeartbeatRequest(broker_id=1, current_metadata_offset=0, want_fence=False, want_shut_down=False)
    answers = network.run_until_complete(asyncio.gather(peer.call(heartbeat), peer.call(vote())))
    assert answers == [BrokerHeartbeatResponse(), VoteResponse(topics=[])]  # type: ignore[comparison-overlap]  # equal by content


def test_on_refused_runs_for_refused_connections_only(network: Network) -> None:
    reported = []
    limits = NetworkClientLimits(request_timeout_ms=2000, connect_timeout_ms=100, backoff_ms=5000)
    address = ("127.0.0.1", 9093)
    for network.hanging, network.down, expected in (
        (True, False, []),
        (False, True, ["refused"]),
        (False, False, ["refused"]),
    ):
        peer = NetworkClient(
            network, address, "node 1", Random(1), limits, on_refused=lambda: reported.append("refused")
        )
        network.run_until_complete(peer.call(vote()))
        assert reported == expected
        peer.close()
