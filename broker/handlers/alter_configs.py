"""The part of AlterConfigs and IncrementalAlterConfigs (KIP-339) that a broker decides itself, before the controller.

Behaviour
- Settings of one broker are altered through that broker only.
- IncrementalAlterConfigs sets and deletes levels of this broker's loggers at once, and only here (KIP-412). A resource
  with an invalid level is left unchanged. If there is an authorizer, it needs ALTER_CONFIGS on the cluster.
- The controller decides everything else (`controller.commands.alter_configs`).
"""

from collections.abc import Awaitable

from broker.broker_server import BrokerServer
from broker.metadata.config_admin import complete_response, own_results
from broker.network.connection import RequestContext
from controller.acls.acl import AclOperation
from controller.commands.alter_configs import AlterConfigOp, check_changes
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from protocol.schema import Message

_Resource = IncrementalAlterConfigsRequest.Resource


def own_alterations(
    broker: BrokerServer, context: RequestContext, request: AlterConfigsRequest
) -> Awaitable[Message] | None:
    """Return the response if this broker decides some of the resources itself, else None."""
    own = own_results(broker, context, request, AlterConfigsResponse)
    return complete_response(broker, context, request, AlterConfigsResponse, own) if own else None


def own_incremental_alterations(
    broker: BrokerServer, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Awaitable[Message] | None:
    """Return the response if this broker decides some of the resources itself, after setting log levels; else None."""

    def alter_levels(wanted: _Resource) -> None:
        if broker.authorizer is not None:
            broker.authorizer.require(context, AclOperation.ALTER_CONFIGS)
        _alter_levels(wanted, validate_only=request.validate_only)

    own = own_results(broker, context, request, IncrementalAlterConfigsResponse, alter_levels)
    return complete_response(broker, context, request, IncrementalAlterConfigsResponse, own) if own else None


def _alter_levels(wanted: _Resource, *, validate_only: bool) -> None:
    from broker.runtime import loggers

    check_changes(wanted.configs)
    levels: dict[str, str | None] = {}
    for config in wanted.configs:
        levels[config.name] = _level(config)
    if not validate_only:
        for logger, level in levels.items():
            loggers.set_level(logger, level)


def _level(config: _Resource.Config) -> str | None:
    """Return the requested level of a logger, None to inherit its parent's; KafkaError if it is invalid."""
    from broker.runtime import loggers

    logger, operation, level = config.name, config.config_operation, config.value
    if operation not in (AlterConfigOp.SET, AlterConfigOp.DELETE):
        try:
            problem = f"{AlterConfigOp(operation).name} operation is not allowed for the BROKER_LOGGER resource"
        except ValueError:
            problem = f"Unknown operation {operation} for logger {logger}"
        raise _invalid_request(problem)
    if not loggers.exists(logger):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {logger} does not exist!")
    if operation == AlterConfigOp.DELETE:
        if logger == loggers.ROOT:
            raise _invalid_request("Removing the log level of the root logger is not allowed")
        return None
    if level not in loggers.LEVEL_NAMES:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {logger} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(loggers.LEVEL_NAMES)}",
        )
    return level


def _invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
