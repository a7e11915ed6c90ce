"""AlterConfigs: the whole of a resource's settings, those not named removed. Superseded by IncrementalAlterConfigs.

Behaviour
- The controller decides each resource on its own (`controller.commands.alter_configs`).
- Topics, the broker that is asked, and (with an empty name) all brokers have settings.

Version notes
- All versions say the same; 2 and later are flexible.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.metadata.config_admin import answer_partly, own_answers
from controller.commands.alter_configs import alter_configs
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from broker.broker import Broker
    from broker.network.connection import RequestContext
    from protocol.schema import Message


async def handle(broker: Broker, _context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Submit the command and answer when it holds."""
    command = partial(alter_configs, request=request, settings=broker.settings)
    return await broker.controller.submit(command)


def own_part(broker: Broker, request: AlterConfigsRequest) -> Awaitable[Message] | None:
    """Return the answer where some of it is this broker's own affair; else None."""
    own = own_answers(broker, request, AlterConfigsResponse)
    return answer_partly(broker, request, AlterConfigsResponse, own) if own else None
