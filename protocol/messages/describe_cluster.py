"""DescribeCluster: list the brokers or the controllers (KIP-700).

Version notes: 1 added the endpoint type (1 brokers, 2 controllers, KIP-919), 2 fenced brokers (KIP-1073).
"""

from __future__ import annotations

from protocol.schema import Bool, Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=60, versions=(0, 2), flexible=0)
class DescribeClusterRequest(Message):
    """The endpoint type, and what to include."""

    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = wire("1+", default=1)
    include_fenced_brokers: Bool = wire("2+", default=False)


@message(key=60, versions=(0, 2), flexible=0)
class DescribeClusterResponse(Message):
    """The cluster's nodes."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    error_message: String | None = wire(default=None)
    endpoint_type: Int8 = wire("1+", default=1)
    cluster_id: String
    controller_id: Int32 = wire(default=-1)
    brokers: list[Broker]
    cluster_authorized_operations: Int32 = wire(default=-0x80000000)

    @struct
    class Broker:
        broker_id: Int32
        host: String
        port: Int32
        rack: String | None = wire(default=None)
        is_fenced: Bool = wire("2+", default=False)
