"""AlterClientQuotas: set and remove quotas of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from protocol.schema import Bool, Float64, Int16, Int32, Message, String, message, struct, wire


@message(key=49, versions=(0, 1), flexible=1)
class AlterClientQuotasRequest(Message):
    """The quotas to set or remove for each entity; a null name is the default of its type."""

    entries: list[Entry]
    validate_only: Bool

    @struct
    class Entry:
        entity: list[Entity]
        ops: list[Op]

        @struct
        class Entity:
            entity_type: String
            entity_name: String | None

        @struct
        class Op:
            key: String
            value: Float64
            remove: Bool


@message(key=49, versions=(0, 1), flexible=1)
class AlterClientQuotasResponse(Message):
    """The result for each entity."""

    throttle_time_ms: Int32 = wire(default=0)
    entries: list[Entry]

    @struct
    class Entry:
        error_code: Int16 = wire(default=0)
        error_message: String | None
        entity: list[Entity]

        @struct
        class Entity:
            entity_type: String
            entity_name: String | None
