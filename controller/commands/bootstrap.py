"""The first records of a new cluster: its feature levels, and the configs that these require.

Formatting a data directory writes the levels to `bootstrap.checkpoint`; the first leader appends them to the metadata
log. A feature at level 0 needs no record. If eligible leader replicas are enabled, the first leader adds its own
min.insync.replicas, which must then be the same on all brokers (KIP-966). Kafka: `ActivationRecordsGenerator`.
"""

from __future__ import annotations

from controller.commands.controller_result import ControllerResult
from controller.commands.election_configs import elr_safety_records
from controller.configs.effective import StaticSettings
from controller.image import MetadataImage
from controller.image_builder import apply_records
from controller.partition_change import elr_enabled
from protocol.api import FEATURES, KRAFT_VERSION
from protocol.records.metadata import BeginTransactionRecord, EndTransactionRecord, FeatureLevelRecord
from protocol.schema import Message

METADATA_VERSION = "metadata.version"


def bootstrap_records() -> tuple[FeatureLevelRecord, ...]:
    """Return the feature levels of a new cluster, metadata.version first: it defines how to read the others."""
    levels = {name: feature.default_level for name, feature in FEATURES.items() if name != KRAFT_VERSION}
    names = sorted((name for name, level in levels.items() if level > 0), key=lambda name: name != METADATA_VERSION)
    return tuple(FeatureLevelRecord(name=name, feature_level=levels[name]) for name in names)


def bootstrap(image: MetadataImage, records: tuple[Message, ...], settings: StaticSettings) -> ControllerResult[None]:
    """Return the bootstrap checkpoint's `records` in a transaction; none if the cluster has a metadata.version."""
    if METADATA_VERSION in image.features:
        return ControllerResult((), None)
    bootstrapped = apply_records(image, records, offset=image.offset, epoch=image.epoch)
    safety_records = elr_safety_records(bootstrapped, settings) if elr_enabled(bootstrapped) else ()
    return ControllerResult(
        (BeginTransactionRecord(name="Bootstrap records"), *records, *safety_records, EndTransactionRecord()), None
    )
