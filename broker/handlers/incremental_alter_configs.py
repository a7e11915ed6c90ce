"""IncrementalAlterConfigs: set, delete, append to or subtract from single settings (KIP-339).

Behaviour
- The controller decides each resource independently (`controller.commands.alter_configs`).
- Resources: topics, the receiving broker, the default of all brokers (empty name), groups and client metrics
  subscriptions.
- Levels of this broker's loggers are set and deleted at once, and only here (KIP-412). A resource with an invalid level
  is left unchanged.

Version notes
- 0 and 1 have the same fields; 1 is flexible.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.metadata.config_admin import answer_partly, own_answers
from controller.commands.alter_configs import AlterConfigOp, check_changes, incremental_alter_configs
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from broker.network.connection import RequestContext
    from broker.node import Node
    from protocol.schema import Message

_Resource = IncrementalAlterConfigsRequest.Resource


async def handle(
    broker: Node, _context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Submit the command; return its response once its records are committed."""
    command = partial(incremental_alter_configs, request=request, settings=broker.settings)
    return await broker.controller.submit(command)


def own_part(broker: Node, request: IncrementalAlterConfigsRequest) -> Awaitable[Message] | None:
    """Return the response if this broker decides some of the resources itself, after setting log levels; else None."""
    alter_levels = partial(_alter_levels, validate_only=request.validate_only)
    own = own_answers(broker, request, IncrementalAlterConfigsResponse, alter_levels)
    return answer_partly(broker, request, IncrementalAlterConfigsResponse, own) if own else None


def _alter_levels(asked: _Resource, *, validate_only: bool) -> None:
    from broker.runtime import loggers

    check_changes(asked.configs)
    levels: dict[str, str | None] = {}
    for config in asked.configs:
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
