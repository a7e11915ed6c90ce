"""ApiVersions: the APIs and versions that a listener serves, and the cluster's features.

Behaviour
- An API is listed on each listener that serves it. Produce is listed from version 0 though 0 to 2 are not served, as
  in Kafka: otherwise librdkafka silently stops compressing (KAFKA-18659).
- GetTelemetrySubscriptions and PushTelemetry are listed while a CLIENT_METRICS resource exists. Kafka lists them while
  a plug-in receives the metrics; otherwise clients would request subscriptions that never come (KIP-714).
- `finalized_features_epoch` is the offset of the metadata image that the features were read from.

Version notes
- 3 and later have the client's software name and version (KIP-511): INVALID_REQUEST if either is empty or has other
  characters than letters, digits, `.` and `-`. They also return the features.
- Below 4, supported features with minimum level 0 are omitted: clients reject them (KAFKA-17492).
- A request of an unknown version gets a response of version 0: UNSUPPORTED_VERSION, and the versions of this API only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from controller.image import ResourceType
from protocol.api import FEATURES, KRAFT_VERSION, ApiKey
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from broker.network.connection import RequestContext
    from broker.shared_server import RoleServer
    from controller.image import MetadataImage
    from protocol.api import Api

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_FROM_VERSION = 3
_SOFTWARE_KEPT = 64
_MAX_SHARED = 1000
_shared_texts: dict[str, str] = {}
_LEVEL_0_FROM_VERSION = 4

_TELEMETRY = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)

_ApiVersion = ApiVersionsResponse.ApiVersion


def handle(server: RoleServer, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Return the APIs of this listener and the features."""
    if context.api_version >= _SOFTWARE_FROM_VERSION and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    if context.connection is not None and context.api_version >= _SOFTWARE_FROM_VERSION:
        context.connection.client_software = (
            _shared(request.client_software_name[:_SOFTWARE_KEPT]),
            _shared(request.client_software_version[:_SOFTWARE_KEPT]),
        )
    image = server.image
    levels = {**image.features, KRAFT_VERSION: server.raft.kraft_version}
    telemetry = _has_metrics_subscription(image)
    return ApiVersionsResponse(
        api_keys=[_listed(api) for api in server.dispatcher.apis.values() if telemetry or api.key not in _TELEMETRY],
        supported_features=[
            ApiVersionsResponse.SupportedFeature(
                name=name, min_version=feature.min_level, max_version=feature.max_level
            )
            for name, feature in FEATURES.items()
            if feature.min_level or context.api_version >= _LEVEL_0_FROM_VERSION
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeature(name=name, max_version_level=level, min_version_level=level)
            for name, level in levels.items()
            if level
        ],
    )


def _shared(text: str) -> str:
    """Return the same object for equal texts: most connections have one of a few names and versions.

    Clients choose the texts, so their number is limited. `sys.intern` would keep each of them for ever (Python 3.12).
    """
    if len(_shared_texts) >= _MAX_SHARED and text not in _shared_texts:
        _shared_texts.clear()
    return _shared_texts.setdefault(text, text)


def _has_metrics_subscription(image: MetadataImage) -> bool:
    """Return whether a CLIENT_METRICS resource exists; searched once per state of the configurations."""
    configured = image.all_configs()
    known: tuple[object, bool] | None = image.lasting_memo.get(_has_metrics_subscription)
    if known is None or known[0] is not configured:
        known = configured, any(kind == ResourceType.CLIENT_METRICS for kind, _ in configured)
        image.lasting_memo[_has_metrics_subscription] = known
    return known[1]


def _listed(api: Api) -> ApiVersionsResponse.ApiVersion:
    lowest = 0 if api.key is ApiKey.PRODUCE else api.min_version
    return _ApiVersion(api_key=api.key, min_version=lowest, max_version=api.max_version)
