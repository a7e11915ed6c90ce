"""CreatePartitions: add partitions to existing topics (KIP-195)."""

from __future__ import annotations

from protocol.schema import Bool, Int16, Int32, Message, String, message, struct, wire


@message(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsRequest(Message):
    """The topics, each with its new total number of partitions."""

    topics: list[Topic]
    timeout_ms: Int32
    validate_only: Bool

    @struct
    class Topic:
        name: String
        count: Int32
        assignments: list[Assignment] | None

        @struct
        class Assignment:
            broker_ids: list[Int32]


@message(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsResponse(Message):
    """The result for each topic."""

    throttle_time_ms: Int32 = wire(default=0)
    results: list[Result]

    @struct
    class Result:
        name: String
        error_code: Int16 = wire(default=0)
        error_message: String | None = wire(default=None)
