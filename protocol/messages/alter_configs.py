"""AlterConfigs: replace all settings of a resource; superseded by IncrementalAlterConfigs."""

from __future__ import annotations

from protocol.schema import Bool, Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=33, versions=(0, 2), flexible=2)
class AlterConfigsRequest(Message):
    """The resources, each with all of its dynamic settings."""

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
            value: String | None


@message(key=33, versions=(0, 2), flexible=2)
class AlterConfigsResponse(Message):
    """The result for each resource."""

    throttle_time_ms: Int32 = wire(default=0)
    responses: list[Resource]

    @struct
    class Resource:
        error_code: Int16 = wire(default=0)
        error_message: String | None
        resource_type: Int8
        resource_name: String
