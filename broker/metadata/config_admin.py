"""The part of AlterConfigs and IncrementalAlterConfigs that a broker handles itself (Kafka: `ConfigAdminManager`).

    logger levels                    belong to the process: set here, recorded nowhere (KIP-412)
    settings of one broker           accepted by that broker only; for another broker id, INVALID_REQUEST
    ssl. and sasl. settings          for all brokers too: INVALID_REQUEST if this broker could not use them

Everything else goes to the controller, which also rejects a resource that a request names twice, or that the client may
not alter. To check ssl. settings the broker reads the files that they name: only if the client may alter them.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from broker.broker_server import BrokerServer
from broker.network.connection import RequestContext
from broker.security.security_error import SecurityError
from controller.acls.acl import AclOperation
from controller.commands.alter_configs import alter_configs, incremental_alter_configs
from controller.configs.listener_names import without_listener
from controller.image import ResourceType
from controller.image_builder import apply_records
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.schema import Message

_SECURITY = ("ssl.", "sasl.")

AlterLevels = Callable[[Any], None]
"""Sets the levels that a resource requests; raises KafkaError if one cannot be set."""


def own_results(
    broker: BrokerServer,
    context: RequestContext,
    request: Any,
    response: type[Any],
    alter_levels: AlterLevels | None = None,
) -> dict[int, Any]:
    """Return the results of the resources that this broker handles itself, by their index in the request."""
    times = Counter((requested.resource_type, requested.resource_name) for requested in request.resources)
    results = {}
    for index, requested in enumerate(request.resources):
        kind, name = requested.resource_type, requested.resource_name
        if times[kind, name] > 1:
            continue
        result = response.Resource(error_message=None, resource_type=kind, resource_name=name)
        try:
            if kind == ResourceType.BROKER_LOGGER and alter_levels is not None:
                _check_own_id(broker, name, "Unexpected node id. Expected")
                alter_levels(requested)
            elif kind == ResourceType.BROKER:
                if name:
                    _check_own_id(broker, name, "Unexpected broker id, expected")
                if _may_alter(broker, context):
                    _check_security(broker, type(request)(resources=[requested], validate_only=False))
                continue
            else:
                continue
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        results[index] = result
    return results


async def complete_response(
    broker: BrokerServer, context: RequestContext, request: Any, response: type[Any], own: dict[int, Any]
) -> Message:
    """Return the response: the `own` results, and the controller's for all other resources.

    KafkaError if the controller does not answer in time.
    """
    rest = [requested for index, requested in enumerate(request.resources) if index not in own]
    from_controller: list[Any] = []
    if rest:
        part = type(request)(resources=rest, validate_only=request.validate_only)
        from_controller = (await broker.request_for_client(context, part)).responses
    others = iter(from_controller)
    results = [own[index] if index in own else next(others) for index in range(len(request.resources))]
    complete: Message = response(responses=results)
    return complete


def _may_alter(broker: BrokerServer, context: RequestContext) -> bool:
    return broker.authorizer is None or broker.authorizer.may_on_cluster(context, AclOperation.ALTER_CONFIGS)


def _check_security(broker: BrokerServer, request: Any) -> None:
    """Raise KafkaError INVALID_REQUEST if the request changes security settings to what this broker cannot use.

    The controller refuses everything else that is invalid, unknown names too: keys and certificates are here.
    """
    (requested,) = request.resources
    if not any(without_listener(config.name).startswith(_SECURITY) for config in requested.configs):
        return
    image = broker.image
    alter = incremental_alter_configs if isinstance(request, IncrementalAlterConfigsRequest) else alter_configs
    records = alter(image, request, broker.settings).records
    try:
        broker.check_security(apply_records(image, records, offset=image.offset + len(records), epoch=image.epoch))
    except SecurityError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _check_own_id(broker: BrokerServer, name: str, unexpected: str) -> None:
    if not name.removeprefix("-").isdecimal():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if name != str(broker.node_id):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{unexpected} {broker.node_id}, but received {name}")
