"""Events that mean nothing to a role."""

from __future__ import annotations

from controller.raft.epoch_state import earliest
from controller.raft.messages import Disconnected, OutboundRequest, ResponseReceived, Role
from controller.raft.wire import LeaderAndEpoch, vote_response
from protocol.messages.vote import VoteRequest
from tests.unit.controller.lone_voter import LoneVoter


def test_resigned_leader_ignores_responses_and_disconnects() -> None:
    at = LoneVoter(1).lead()
    at.wait(3000)
    request = OutboundRequest(2, VoteRequest(topics=[]))
    for event in (
        Disconnected(2),
        ResponseReceived(request, None),
        ResponseReceived(
            OutboundRequest(2, VoteRequest(topics=[])), vote_response(LeaderAndEpoch(-1, 2), granted=True)
        ),
    ):
        at.node.step(event, at.now_ms)
        assert (at.node.role, at.node.epoch, at.node.ready()) == (Role.RESIGNED, 2, None)


def test_earliest_ignores_what_is_never_due() -> None:
    assert (earliest(None, 7, 3), earliest(None), earliest()) == (3, None, None)
