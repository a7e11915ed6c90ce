"""DescribeCluster: the cluster id, the controller, and the brokers' addresses on this listener (KIP-700).

Behaviour
- Each broker has its address on the request's listener; brokers without one are omitted.
- On a broker's listener, the controller is any live broker. On a controller's listener it is the active controller,
  and the registered controllers are listed with their addresses.
- A broker's listener describes brokers, a controller's listener controllers: MISMATCHED_ENDPOINT_TYPE for the other
  type, UNSUPPORTED_ENDPOINT_TYPE for any other value (KIP-919).

Version notes
- 1 and later have the endpoint type; below, it is brokers, and a controller's listener returns INVALID_REQUEST.
- 2 and later can include fenced brokers (KIP-1073).
"""

from broker.handlers.authorized_operations import CLUSTER_OPERATIONS
from broker.metadata.metadata_view import controller_for_clients, reachable_brokers
from broker.network.connection import RequestContext
from broker.shared_server import RoleServer
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

_ENDPOINT_TYPE_FROM_VERSION = 1
_ENDPOINT_TYPES = {1: "BROKER", 2: "CONTROLLER"}

_Node = DescribeClusterResponse.Broker


def handle(server: RoleServer, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Return the brokers or the controllers, depending on the listener."""
    is_controller = context.listener in server.settings.controller_listeners
    wanted = 2 if is_controller else 1
    if request.endpoint_type not in _ENDPOINT_TYPES:
        return _refused(
            request, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}"
        )
    if request.endpoint_type != wanted:
        has_type = context.api_version >= _ENDPOINT_TYPE_FROM_VERSION
        return _refused(
            request,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE if has_type else ErrorCode.INVALID_REQUEST,
            f"The request was sent to an endpoint of type {_ENDPOINT_TYPES[wanted]}, "
            f"but we wanted an endpoint of type {_ENDPOINT_TYPES[request.endpoint_type]}",
        )
    response = DescribeClusterResponse(
        endpoint_type=wanted,
        cluster_id=server.cluster_id,
        controller_id=server.raft.leader_id
        if is_controller
        else controller_for_clients(reachable_brokers(server.image, context.listener), server.random),
        brokers=_controllers(server, context) if is_controller else _brokers(server, context, request),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _brokers(server: RoleServer, context: RequestContext, request: DescribeClusterRequest) -> list[_Node]:
    nodes = []
    for node in server.image.brokers.values():
        endpoint = node.endpoints.get(context.listener)
        if endpoint is not None and (request.include_fenced_brokers or not node.fenced):
            nodes.append(
                _Node(
                    broker_id=node.broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=node.rack,
                    is_fenced=node.fenced,
                )
            )
    return nodes


def _controllers(server: RoleServer, context: RequestContext) -> list[_Node]:
    endpoints = {
        node_id: controller.endpoints[context.listener]
        for node_id, controller in server.image.controllers.items()
        if context.listener in controller.endpoints
    }
    endpoints[server.node_id] = server.endpoints[context.listener]
    return [
        _Node(broker_id=node_id, host=endpoint.host, port=endpoint.port)
        for node_id, endpoint in sorted(endpoints.items())
    ]


def _refused(request: DescribeClusterRequest, code: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=code, error_message=message, endpoint_type=request.endpoint_type, cluster_id="", brokers=[]
    )
