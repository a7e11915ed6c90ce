"""ApiVersions: the supported APIs with their versions, and the features.

Version notes: 3 added the client's software and the features (KIP-511, KIP-584); in 0 to 3 a supported feature whose
lowest level is 0 is left out, since clients refuse it (KAFKA-17011). The response to a request of an unknown version
has version 0 (KIP-511).
"""

from __future__ import annotations

from protocol.schema import Bool, Int16, Int32, Int64, Message, String, message, struct, wire


@message(key=18, versions=(0, 4), flexible=3)
class ApiVersionsRequest(Message):
    """The name and version of the client's software."""

    client_software_name: String = wire("3+", default="", ignorable=True)
    client_software_version: String = wire("3+", default="", ignorable=True)


@message(key=18, versions=(0, 4), flexible=3)
class ApiVersionsResponse(Message):
    """The APIs and features that the broker supports."""

    error_code: Int16 = wire(default=0)
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = wire("1+", default=0, ignorable=True)
    supported_features: list[SupportedFeature] = wire("3+", default=[], tag=0, ignorable=True)
    finalized_features_epoch: Int64 = wire("3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeature] = wire("3+", default=[], tag=2, ignorable=True)
    zk_migration_ready: Bool = wire("3+", default=False, tag=3, ignorable=True)

    @struct
    class ApiVersion:
        api_key: Int16
        min_version: Int16
        max_version: Int16

    @struct
    class SupportedFeature:
        name: String
        min_version: Int16
        max_version: Int16

    @struct
    class FinalizedFeature:
        name: String
        max_version_level: Int16
        min_version_level: Int16
