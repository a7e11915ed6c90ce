"""UpdateFeatures: raise or lower feature levels of the cluster (KIP-584, KIP-778).

Version notes: 1 added validation without an update, and update types instead of a downgrade flag; 2 has one result for
all updates.
"""

from __future__ import annotations

from protocol.schema import Bool, Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=57, versions=(0, 2), flexible=0)
class UpdateFeaturesRequest(Message):
    """The new levels; type 1 upgrades, 2 is a safe and 3 an unsafe downgrade."""

    timeout_ms: Int32 = wire(default=60000)
    feature_updates: list[Update]
    validate_only: Bool = wire("1+", default=False)

    @struct
    class Update:
        feature: String
        max_version_level: Int16
        allow_downgrade: Bool = wire("0", default=False)
        upgrade_type: Int8 = wire("1+", default=1)


@message(key=57, versions=(0, 2), flexible=0)
class UpdateFeaturesResponse(Message):
    """The result of the updates."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    error_message: String | None
    results: list[Result] = wire("0-1", default=[], ignorable=True)

    @struct
    class Result:
        feature: String
        error_code: Int16 = wire(default=0)
        error_message: String | None
