"""Metadata recovery: the newest snapshot and the log after it, replayed when a node starts.

Everything is read and validated before anything is written. The high watermark is not known then: only a quorum of one
voter knows that its whole log is committed.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from broker.metadata.metadata_log import MetadataLog
from controller.batches import is_control
from controller.image import MetadataImage
from controller.image_builder import ImageBuilder
from controller.metadata_transaction import MetadataTransaction
from controller.raft.voter_history import VoterHistory
from protocol.api import FEATURES, KRAFT_VERSION
from protocol.errors import InvariantError


@dataclass(slots=True)
class RecoveredMetadata:
    """The stored metadata: the image at the end of the log."""

    image: MetadataImage
    transaction: MetadataTransaction = field(default_factory=MetadataTransaction)
    """The metadata transaction open at the end; its records are not in the image."""


def recover_metadata(
    log: MetadataLog, empty: MetadataImage, up_to: int | None = None, voter_history: VoterHistory | None = None
) -> RecoveredMetadata:
    """Replay the newest snapshot and the log, up to the offset `up_to` if not None, onto `empty`.

    Add the voters in them to `voter_history`. InvariantError if a record cannot be decoded or applied.
    """
    builder = ImageBuilder(empty)
    offset = 0
    end_offset = log.end_offset if up_to is None else up_to
    epoch = 0
    transaction = MetadataTransaction()
    newest = log.newest_snapshot
    if newest is not None:
        snapshot = log.read_snapshot(newest)
        offset, epoch = newest.end_offset, newest.epoch
        if voter_history is not None:
            voter_history.load_snapshot(offset, snapshot.voters, snapshot.kraft_version)
        for record in snapshot.records:
            builder.replay(record)
    for entry in log.read_entries(offset):
        if entry.next_offset > end_offset:
            break
        epoch = entry.epoch
        if is_control(entry.records[0]):
            if voter_history is not None:
                voter_history.append(entry.base_offset, entry.records)
        else:
            for applicable in transaction.replay(entry.records):
                builder.replay(applicable)
    image = builder.build(offset=max(end_offset, offset) - 1, epoch=epoch)
    return RecoveredMetadata(image, transaction)


def check_features(image: MetadataImage, kraft_version: int, directory: str) -> None:
    """Raise InvariantError if the cluster uses a feature, or a level of one, that this version does not support."""
    for name, level in {**image.features, KRAFT_VERSION: kraft_version}.items():
        known = FEATURES.get(name)
        # max_level 0: the feature's protocol is not implemented here. Its clients find that out.
        if level and (known is None or (level > known.max_level > 0)):
            limit = "unknown to this version" if known is None else f"above {known.max_level}, the highest supported"
            raise InvariantError(
                f"the metadata in {directory} has {name}={level}, which is {limit}:"
                " start the version that wrote it, or choose another directory"
            )


def check_voters(configured: Collection[int], stored: Collection[int], directory: str) -> None:
    """Raise InvariantError if voters are stored and the configured ones differ from them."""
    if stored and set(configured) != set(stored):
        required = ",".join(f"{voter_id}@HOST:PORT" for voter_id in sorted(stored))
        raise InvariantError(
            f"the metadata in {directory} belongs to a quorum with voters {_listed(stored)}, but the settings define"
            f" {_listed(configured)}: set controller.quorum.voters={required}, as in the settings of earlier starts,"
            " or choose another directory"
        )


def _listed(voters: Collection[int]) -> str:
    return ", ".join(map(str, sorted(voters)))
