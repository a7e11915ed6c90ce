"""The Raft requests of other nodes (KIP-595, KIP-630, KIP-996). `controller.raft` makes the responses.

Vote               a candidate requests a vote or a pre-vote
BeginQuorumEpoch   a new leader announces its epoch to the voters
EndQuorumEpoch     a leader resigns and lists preferred successors
Fetch              voters and brokers replicate `__cluster_metadata`-0, the only partition on a controller listener
FetchSnapshot      a node behind the leader's log start fetches a chunk of a metadata snapshot
"""

from collections.abc import Awaitable

from broker.controller_server import ControllerServer
from broker.network.connection import RequestContext
from controller.raft.messages import RaftRequest
from protocol.schema import Message


def handle(controller: ControllerServer, _context: RequestContext, request: RaftRequest) -> Awaitable[Message]:
    """Pass the request to this node's Raft driver; return its response."""
    return controller.raft.handle_request(request)
