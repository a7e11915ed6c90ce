"""ElectLeaders: elect the preferred leader of partitions, or an unclean one (KIP-460).

Version notes: 0 elects the preferred leader only; 1 added the type of election and an error code for the whole.
"""

from __future__ import annotations

from protocol.schema import Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=43, versions=(0, 2), flexible=2)
class ElectLeadersRequest(Message):
    """The partitions, null: all; type 0 elects the preferred replica, 1 any live one (unclean)."""

    election_type: Int8 = wire("1+")
    topic_partitions: list[Topic] | None
    timeout_ms: Int32 = wire(default=60000)

    @struct
    class Topic:
        topic: String
        partitions: list[Int32]


@message(key=43, versions=(0, 2), flexible=2)
class ElectLeadersResponse(Message):
    """The result of each election."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire("1+", default=0)
    replica_election_results: list[Topic]

    @struct
    class Topic:
        topic: String
        partition_result: list[Partition]

        @struct
        class Partition:
            partition_id: Int32
            error_code: Int16 = wire(default=0)
            error_message: String | None
