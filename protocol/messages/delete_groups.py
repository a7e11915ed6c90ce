"""DeleteGroups: delete groups with their offsets (KIP-229)."""

from __future__ import annotations

from protocol.schema import Int16, Int32, Message, String, message, struct, wire


@message(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsRequest(Message):
    """The groups to delete."""

    groups_names: list[String]


@message(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsResponse(Message):
    """The result for each group."""

    throttle_time_ms: Int32 = wire(default=0)
    results: list[Result]

    @struct
    class Result:
        group_id: String
        error_code: Int16 = wire(default=0)
