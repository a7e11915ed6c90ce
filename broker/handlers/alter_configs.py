"""AlterConfigs: replace all settings of a resource; unlisted ones are removed. Superseded by IncrementalAlterConfigs.

Behaviour
- The controller decides each resource independently (`controller.commands.alter_configs`).
- Resources: topics, the receiving broker, and the default of all brokers (empty name).

Version notes
- All versions have the same fields; 2 and later are flexible.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.metadata.config_admin import answer_partly, own_answers
from controller.commands.alter_configs import alter_configs
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from broker.network.connection import RequestContext
    from broker.node import Node
    from protocol.schema import Message


async def handle(broker: Node, _context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Submit the command; return its response once its records are committed."""
    command = partial(alter_configs, request=request, settings=broker.settings)
    return await broker.controller.submit(command)


def own_part(broker: Node, request: AlterConfigsRequest) -> Awaitable[Message] | None:
    """Return the response if this broker decides some of the resources itself, else None."""
    own = own_answers(broker, request, AlterConfigsResponse)
    return answer_partly(broker, request, AlterConfigsResponse, own) if own else None
