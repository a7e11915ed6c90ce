"""DescribeClientQuotas: list the quotas of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from protocol.schema import Bool, Float64, Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasRequest(Message):
    """A filter: for each entity type an exact name (0), the default (1), or any of the type (2)."""

    components: list[Component]
    strict: Bool

    @struct
    class Component:
        entity_type: String
        match_type: Int8
        match: String | None


@message(key=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasResponse(Message):
    """The entities that match, with their quotas; a null name is the default of its type."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    error_message: String | None
    entries: list[Entry] | None

    @struct
    class Entry:
        entity: list[Entity]
        values: list[Value]

        @struct
        class Entity:
            entity_type: String
            entity_name: String | None

        @struct
        class Value:
            key: String
            value: Float64
