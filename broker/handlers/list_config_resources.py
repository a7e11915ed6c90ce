"""ListConfigResources: list the resources that have settings (KIP-1000, KIP-1142).

Behaviour
- Topics and active brokers are always listed; groups and client metrics subscriptions only if a setting is set. Loggers
  are listed as one resource per active broker.
- UNSUPPORTED_VERSION for an unknown resource type.

Version notes
- 0 lists client metrics subscriptions, 1 the requested types or all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from controller.image import MetadataImage, ResourceType
from protocol.errors import ErrorCode
from protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.network.connection import RequestContext

_KINDS_FROM_VERSION = 1


def handle(
    broker: BrokerServer, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Return the resources of the requested types."""
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
    return sorted(name for of, name in image.all_configs() if of == kind)
