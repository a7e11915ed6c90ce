"""UpdateFeatures: raise or lower the levels of features (KIP-584).

Behaviour
- The controller decides (`controller.commands.features`): all updates hold, or none, and the error is the request's.
- What is built at one level only cannot have another: INVALID_UPDATE_VERSION.

Version notes
- 0 permits to lower a level instead of naming the type of the update, and cannot merely validate.
- Below 2, a success names each feature.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.features import update_features
from protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext


async def handle(broker: Broker, _context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Submit the command and answer when it holds."""
    controller = broker.controller
    command = partial(
        update_features, request=request, kraft_version=controller.kraft_version, settings=broker.settings
    )
    return await controller.submit(command, request.timeout_ms)
