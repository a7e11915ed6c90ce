"""One voter of three without a network: tests write the requests and responses of the other nodes."""

from __future__ import annotations

from typing import Any

from controller.raft.log import RaftEpochEnd, RaftLog
from controller.raft.messages import (
    NO_NODE,
    ElectionState,
    OutboundRequest,
    RequestReceived,
    Response,
    ResponseReceived,
    Tick,
    Timing,
)
from controller.raft.raft_node import RaftNode
from controller.raft.voter_history import VoterHistory
from controller.raft.voters import NO_DIRECTORY, Voter, VoterSet
from controller.raft.wire import (
    LeaderAndEpoch,
    ReplicaKey,
    begin_request,
    end_request,
    fetch_request,
    response_header,
    vote_request,
    vote_response,
)
from protocol.messages.fetch import FetchRequest
from protocol.messages.vote import VoteRequest
from protocol.schema import Message
from storage.log.leader_epochs import EpochEntry

VOTERS = VoterSet([Voter(1), Voter(2), Voter(3)])
TIMING = Timing()


class LoneVoter:
    """A Raft node (node 1 by default), with the requests, responses and log writes that it produced."""

    def __init__(
        self,
        *epochs: int,
        node_id: int = 1,
        state: ElectionState | None = None,
        voters: VoterSet = VOTERS,
        high_watermark: int = 0,
        **others: Any,
    ) -> None:
        """Start with one record of each epoch in `epochs`."""
        starts: dict[int, int] = {}
        for offset, epoch in enumerate(epochs):
            starts.setdefault(epoch, offset)
        log = RaftLog(
            len(epochs),
            epochs[-1] if epochs else 0,
            high_watermark=high_watermark,
            epochs=[EpochEntry(epoch, start) for epoch, start in starts.items()],
        )
        election = state or ElectionState(max(epochs, default=0))
        self.node = RaftNode(node_id, VoterHistory(voters), election, log, cluster_id="c", **others)
        self.now_ms = 0
        self.requests: list[OutboundRequest] = []
        self.answers: list[Response] = []
        self.states: list[ElectionState] = []
        self.warnings: list[str] = []
        self.readies: list[Any] = []

    def perform(self) -> None:
        """Perform every Ready until none is left."""
        while (ready := self.node.ready()) is not None:
            self.readies.append(ready)
            self.requests += ready.requests
            self.answers += ready.responses
            self.warnings += ready.warnings
            if ready.election_state is not None:
                self.states.append(ready.election_state)
            self.node.advance(ready)

    def wait(self, ms: int) -> None:
        """Advance the clock by `ms`, then tick once."""
        self.now_ms += ms
        self.node.step(Tick(), self.now_ms)
        self.perform()

    def requested(self, request: Any, token: object = "token") -> list[Response]:
        """Deliver a request of another node; return the responses sent immediately, to any node."""
        self.answers = []
        self.node.step(RequestReceived(token, request), self.now_ms)
        self.perform()
        return self.answers

    def answered(self, request: OutboundRequest, response: Message | None) -> None:
        """Deliver the response of a request, or None for a failure."""
        self.node.step(ResponseReceived(request, response), self.now_ms)
        self.perform()

    def sent(self, kind: type[Message]) -> list[OutboundRequest]:
        """Return and clear the requests of one kind."""
        found = [request for request in self.requests if isinstance(request.message, kind)]
        self.requests = [request for request in self.requests if not isinstance(request.message, kind)]
        return found

    def lead(self) -> LoneVoter:
        """Win an election."""
        self.node.campaign(self.now_ms)
        self.perform()
        for request in self.sent(VoteRequest):
            self.answered(request, vote_response(LeaderAndEpoch(NO_NODE, self.node.epoch), granted=True))
        return self

    def follow(self, leader_id: int, epoch: int) -> LoneVoter:
        """Become a follower of `leader_id`."""
        self.requested(begin(leader_id, epoch, to=self.node.node_id))
        return self

    def the_fetch(self) -> OutboundRequest:
        """Return the only Fetch request that was sent."""
        (request,) = self.sent(FetchRequest)
        return request


def me(node_id: int, cluster_id: str | None = "c") -> ReplicaKey:
    return ReplicaKey(node_id, NO_DIRECTORY, cluster_id)


def vote(candidate_id: int, epoch: int, end: tuple[int, int] = (9, 99), *, pre_vote: bool = False, to: int = 1) -> Any:
    return vote_request(me(candidate_id), Voter(to), epoch, RaftEpochEnd(*end), pre_vote=pre_vote)


def begin(leader_id: int, epoch: int, to: int = 1) -> Any:
    return begin_request(me(leader_id), Voter(to), epoch, Voter(leader_id))


def end(leader_id: int, epoch: int, *successors: int) -> Any:
    return end_request(me(leader_id), epoch, [VOTERS.by_id[voter_id] for voter_id in successors])


def fetch(
    replica_id: int,
    epoch: int,
    end_epoch: int,
    end_offset: int,
    *,
    high_watermark: int = 0,
    directory_id: bytes = NO_DIRECTORY,
) -> Any:
    sender = me(replica_id)._replace(directory_id=directory_id)
    return fetch_request(sender, epoch, RaftEpochEnd(end_epoch, end_offset), high_watermark, TIMING)


def only(answers: list[Response]) -> Any:
    """Return the partition of the only response, the metadata log's."""
    (answer,) = answers
    return response_header(answer.response).partition


def granted(answers: list[Response]) -> bool:
    """Return whether the only response grants a vote."""
    partition = only(answers)
    assert not partition.error_code, partition
    return bool(partition.vote_granted)
