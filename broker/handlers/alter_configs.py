"""AlterConfigs: the whole of a resource's settings, those not named removed. Superseded by IncrementalAlterConfigs.

Behaviour
- The controller decides each resource on its own (`controller.commands.alter_configs`).
- Topics, this broker, and (with an empty name) all brokers have settings.

Version notes
- All versions say the same; 2 and later are flexible.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.alter_configs import alter_configs
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.connection import RequestContext


async def handle(broker: Broker, _context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Submit the command and answer when it holds."""
    command = partial(alter_configs, request=request, settings=broker.settings)
    return await broker.controller.submit(command)
