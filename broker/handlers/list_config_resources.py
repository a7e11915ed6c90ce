"""ListConfigResources: what there is that has settings (KIP-1000, KIP-1142).

Behaviour
- Topics and brokers are listed whether anything is set for them or not; groups and client metrics subscriptions by
  their settings, without which there is nothing to list. Loggers are a broker's, and listed as that.
- A kind that does not exist is UNSUPPORTED_VERSION.

Version notes
- 0 lists client metrics subscriptions, 1 all kinds or those that are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from controller.image import MetadataImage, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import RequestContext

_KINDS_FROM_VERSION = 1


def handle(broker: Broker, context: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """List the resources of every kind that is asked for."""
    wanted: set[int] = {ResourceType.CLIENT_METRICS}
    if context.api_version >= _KINDS_FROM_VERSION:
        wanted = set(request.resource_types) or set(ResourceType)
    if not wanted <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    return ListConfigResourcesResponse(
        config_resources=[
            ListConfigResourcesResponse.Resource(resource_name=name, resource_type=kind)
            for kind in sorted(wanted)
            for name in _names(broker.image, kind)
        ]
    )


def _names(image: MetadataImage, kind: int) -> Iterable[str]:
    if kind == ResourceType.TOPIC:
        return image.topics_by_name()
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return (str(broker.broker_id) for broker in image.brokers.values() if not broker.fenced)
    return sorted(name for of, name in image.configured() if of == kind)
