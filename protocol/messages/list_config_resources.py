"""ListConfigResources: what there is that has settings (KIP-1000, KIP-1142).

Version notes: 0 knows client metrics subscriptions only; 1 brought the other kinds.
"""

from __future__ import annotations

from protocol.schema import Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=74, versions=(0, 1), flexible=0)
class ListConfigResourcesRequest(Message):
    """Which kinds of resources are asked for; none stands for all of them."""

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
