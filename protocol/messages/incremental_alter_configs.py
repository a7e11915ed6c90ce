"""IncrementalAlterConfigs: change individual settings of resources (KIP-339)."""

from __future__ import annotations

from protocol.schema import Bool, Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsRequest(Message):
    """Settings to set (0), delete (1), append to (2) or subtract from (3)."""

    resources: list[Resource]
    validate_only: Bool

    @struct
    class Resource:
        resource_type: Int8
        resource_name: String
        configs: list[Config]

        @struct
        class Config:
            name: String
            config_operation: Int8
            value: String | None


@message(key=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsResponse(Message):
    """The result for each resource."""

    throttle_time_ms: Int32 = wire(default=0)
    responses: list[Resource]

    @struct
    class Resource:
        error_code: Int16 = wire(default=0)
        error_message: String | None
        resource_type: Int8
        resource_name: String
