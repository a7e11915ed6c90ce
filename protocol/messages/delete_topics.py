"""DeleteTopics: delete topics with their records.

Version notes: 5 added error messages (KIP-599), 6 topic ids (KIP-516).
"""

from __future__ import annotations

from protocol.schema import ZERO_UUID, Int16, Int32, Message, String, Uuid, message, struct, wire


@message(key=20, versions=(1, 6), flexible=4)
class DeleteTopicsRequest(Message):
    """The topics to delete, by name or, from version 6 on, by id."""

    topics: list[Topic] = wire("6+", default=[])
    topic_names: list[String] = wire("-5", default=[], ignorable=True)
    timeout_ms: Int32

    @struct
    class Topic:
        name: String | None = wire(default=None)
        topic_id: Uuid


@message(key=20, versions=(1, 6), flexible=4)
class DeleteTopicsResponse(Message):
    """The result for each topic."""

    throttle_time_ms: Int32 = wire(default=0)
    responses: list[Topic]

    @struct
    class Topic:
        name: String | None = wire(nullable="6+")
        topic_id: Uuid = wire("6+", default=ZERO_UUID, ignorable=True)
        error_code: Int16 = wire(default=0)
        error_message: String | None = wire("5+", default=None, ignorable=True)
