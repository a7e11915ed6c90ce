"""IncrementalAlterConfigs: single settings set, deleted, appended to or subtracted from (KIP-339).

Behaviour
- The controller decides each resource on its own (`controller.commands.alter_configs`).
- Topics, this broker, and (with an empty name) all brokers have settings.

Version notes
- Both versions say the same; 1 and later are flexible.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.alter_configs import incremental_alter_configs
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.connection import RequestContext


async def handle(
    broker: Broker, _context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Submit the command and answer when it holds."""
    command = partial(incremental_alter_configs, request=request, settings=broker.settings)
    return await broker.controller.submit(command)
