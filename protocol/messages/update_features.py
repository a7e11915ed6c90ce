"""UpdateFeatures: raise or lower the levels of features for the whole cluster (KIP-584, KIP-778).

Version notes: 1 can merely validate, and has types of updates instead of a permission to downgrade; 2 answers for all
updates together.
"""

from __future__ import annotations

from protocol.schema import Bool, Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=57, versions=(0, 2), flexible=0)
class UpdateFeaturesRequest(Message):
    """The wanted levels; the type is 1 to upgrade, 2 for a safe and 3 for an unsafe downgrade."""

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
    """What became of the updates."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    error_message: String | None
    results: list[Result] = wire("0-1", default=[], ignorable=True)

    @struct
    class Result:
        feature: String
        error_code: Int16 = wire(default=0)
        error_message: String | None
