"""Vote: a candidate for leader of the metadata log requests votes (KIP-595).

Version notes: 1 has the voters' directory ids and the leaders' endpoints (KIP-853), 2 pre-votes, which start no epoch
(KIP-996).
"""

from __future__ import annotations

from protocol.messages.begin_quorum_epoch import NodeEndpoint
from protocol.schema import ZERO_UUID, Bool, Int16, Int32, Int64, Message, String, Uuid, message, struct, wire


@message(key=52, versions=(0, 2), flexible=0)
class VoteRequest(Message):
    """The candidate, its epoch, and its last epoch and log end offset; `voter` is the receiver."""

    cluster_id: String | None = wire(default=None)
    voter_id: Int32 = wire("1+", default=-1, ignorable=True)
    topics: list[Topic]

    @struct
    class Topic:
        topic_name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            replica_epoch: Int32
            replica_id: Int32
            replica_directory_id: Uuid = wire("1+", default=ZERO_UUID, ignorable=True)
            voter_directory_id: Uuid = wire("1+", default=ZERO_UUID, ignorable=True)
            last_offset_epoch: Int32
            last_offset: Int64
            pre_vote: Bool = wire("2+", default=False)


@message(key=52, versions=(0, 2), flexible=0)
class VoteResponse(Message):
    """Whether the vote is granted, and the leader that the voter knows (id -1: none)."""

    error_code: Int16 = wire(default=0)
    topics: list[Topic]
    node_endpoints: list[NodeEndpoint] = wire("1+", default=[], tag=0)

    @struct
    class Topic:
        topic_name: String
        partitions: list[Partition]

        @struct
        class Partition:
            partition_index: Int32
            error_code: Int16 = wire(default=0)
            leader_id: Int32
            leader_epoch: Int32
            vote_granted: Bool
