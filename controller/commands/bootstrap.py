"""The first records of a new cluster: the feature levels it starts with, and what they demand.

The levels are written to `bootstrap.checkpoint` when a data directory is made, and from there to the metadata log by
the first leader. A feature at level 0 needs no record. Where eligible leader replicas are kept, the first leader adds
its own min.insync.replicas, on which all brokers have to agree then (KIP-966).
"""

from __future__ import annotations

from controller.commands.controller_result import Decision
from controller.commands.election_configs import agreement_records
from controller.configs.effective import StaticSettings
from controller.image import MetadataImage
from controller.image_builder import apply_records
from controller.partition_change import tracks_eligible
from protocol.api import FEATURES, KRAFT_VERSION
from protocol.records.metadata import BeginTransactionRecord, EndTransactionRecord, FeatureLevelRecord
from protocol.schema import Message

METADATA_VERSION = "metadata.version"


def bootstrap_records() -> tuple[FeatureLevelRecord, ...]:
    """Return the features of a new cluster, metadata.version first: it says how to read all others."""
    levels = {name: feature.default_level for name, feature in FEATURES.items() if name != KRAFT_VERSION}
    names = sorted((name for name, level in levels.items() if level > 0), key=lambda name: name != METADATA_VERSION)
    return tuple(FeatureLevelRecord(name=name, feature_level=levels[name]) for name in names)


def bootstrap(image: MetadataImage, records: tuple[Message, ...], settings: StaticSettings) -> Decision[None]:
    """Begin a cluster with the `records` of its bootstrap checkpoint, unless it has begun."""
    if METADATA_VERSION in image.features:
        return Decision((), None)
    begun = apply_records(image, records, offset=image.offset, epoch=image.epoch)
    agreed = agreement_records(begun, settings) if tracks_eligible(begun) else ()
    return Decision((BeginTransactionRecord(name="Bootstrap records"), *records, *agreed, EndTransactionRecord()), None)
