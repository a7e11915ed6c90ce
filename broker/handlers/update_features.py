"""UpdateFeatures: raise or lower the levels of features (KIP-584).

Behaviour
- The controller decides (`controller.commands.features`): all updates are applied or none, and the error is the
  response's.
- INVALID_UPDATE_VERSION for another level of a feature that is built at one level only.

Version notes
- 0 has a flag that permits a downgrade in place of the type of the update, and no validate-only.
- Below 2, a successful response lists each feature.
"""

from functools import partial

from broker.controller_server import ControllerServer
from broker.network.connection import RequestContext
from controller.commands.features import update_features
from protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


async def handle(
    controller: ControllerServer, _context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Submit the command; return its response once its records are committed."""
    raft = controller.raft
    command = partial(update_features, request=request, kraft_version=raft.kraft_version, settings=controller.settings)
    return await raft.submit(command, request.timeout_ms)
