"""Changes of the cluster's feature levels (KIP-584, KIP-778; Kafka: `FeatureControlManager`).

All updates of a request are made, or none. Every registered broker and controller must support the new level. Raising
it takes an upgrade, lowering it one of the downgrade types; keeping it is always possible.

The level of `kraft.version` is in control records of the metadata log, not in the image; it can be kept but not changed
yet. `metadata.version` cannot change either: this version of the broker writes only one level of it.
"""

from collections.abc import Mapping
from enum import IntEnum

from controller.commands.controller_result import ControllerResult
from controller.commands.election_configs import elr_safety_records
from controller.configs.effective import StaticSettings
from controller.image import MetadataImage
from controller.partition_change import DEFAULT_SETTINGS, ELR_VERSION
from protocol.api import FEATURES, KRAFT_VERSION
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from protocol.records.metadata import FeatureLevelRecord
from protocol.schema import Message


class UpgradeType(IntEnum):
    """The allowed direction of a change, with the numbers of UpdateFeatures."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    image: MetadataImage,
    request: UpdateFeaturesRequest,
    kraft_version: int,
    settings: StaticSettings = DEFAULT_SETTINGS,
) -> ControllerResult[UpdateFeaturesResponse]:
    """Set feature levels; no records if the request only validates.

    KafkaError INVALID_UPDATE_VERSION for the first level that is not possible; then none is set.
    """
    levels = {**image.features, KRAFT_VERSION: kraft_version}
    # The last update of a duplicated feature applies.
    updates = {update.feature: update for update in request.feature_updates}
    for update in updates.values():
        problem = _reason_not_possible(image, update, levels.get(update.feature, 0))
        if problem:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.max_version_level} for feature {update.feature}. {problem}",
            )
    records: list[Message] = [
        FeatureLevelRecord(name=name, feature_level=update.max_version_level)
        for name, update in updates.items()
        if update.max_version_level != levels.get(name, 0)
    ]
    if ELR_VERSION in updates and updates[ELR_VERSION].max_version_level > levels.get(ELR_VERSION, 0):
        records += elr_safety_records(image, settings)
    results = [UpdateFeaturesResponse.Result(feature=name, error_message=None) for name in updates]
    return ControllerResult(
        () if request.validate_only else tuple(records), UpdateFeaturesResponse(error_message=None, results=results)
    )


def _reason_not_possible(image: MetadataImage, update: UpdateFeaturesRequest.Update, current: int) -> str:
    """Return why the update is not possible; empty if it is."""
    name, wanted = update.feature, update.max_version_level
    kind = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    if kind not in set(UpgradeType):
        return "The controller does not support the given upgrade type."
    if wanted < 0:
        return "A feature version cannot be less than 0."
    own: Mapping[str, tuple[int, int]] = {
        known: (levels.min_level, levels.max_level) for known, levels in FEATURES.items()
    }
    supported = [("The controller", own)]
    supported += [(f"Broker {broker.broker_id}", broker.features) for broker in image.brokers.values()]
    supported += [(f"Controller {one.controller_id}", one.features) for one in image.controllers.values()]
    for node, features in supported:
        unsupported = _reason_not_supported(node, features, name, wanted)
        if unsupported:
            return unsupported
    if wanted < current and kind == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if wanted > current and kind != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    if wanted != current and name == KRAFT_VERSION:
        return f"This controller cannot change it from {current} yet."
    return ""


def _reason_not_supported(node: str, features: Mapping[str, tuple[int, int]], name: str, level: int) -> str:
    if name not in features:
        return f"{node} does not support this feature."
    low, high = features[name]
    return "" if low <= level <= high else f"{node} only supports versions {low}-{high}"
