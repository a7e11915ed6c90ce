"""ListConfigResources: list the resources that have settings (KIP-1000, KIP-1142).

Version notes: 0 lists client metrics subscriptions only; 1 added the other types.
"""

from __future__ import annotations

from protocol.schema import Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=74, versions=(0, 1), flexible=0)
class ListConfigResourcesRequest(Message):
    """The resource types to list; an empty list: all of them."""

    resource_types: list[Int8] = wire("1+")


@message(key=74, versions=(0, 1), flexible=0)
class ListConfigResourcesResponse(Message):
    """The resources."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    config_resources: list[Resource]

    @struct
    class Resource:
        resource_name: String
        resource_type: Int8 = wire("1+", default=16, ignorable=True)
