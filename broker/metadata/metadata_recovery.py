"""What a node finds of the cluster's metadata when it starts: its newest snapshot, and the log behind that.

All of it is read and understood before anything is written. How much of the log is committed is not known by then:
only a quorum of one knows that everything is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controller.batches import is_control
from controller.image import MetadataImage
from controller.image_builder import ImageBuilder
from controller.metadata_transaction import MetadataTransaction
from controller.raft.voters import VoterSet
from protocol.api import FEATURES, KRAFT_VERSION
from protocol.errors import InvariantError
from protocol.records.control import KRaftVersionRecord, VotersRecord

if TYPE_CHECKING:
    from broker.metadata.metadata_log import MetadataLog


@dataclass(slots=True)
class StoredMetadata:
    """What is stored: the image after the whole log, and what the log says of the quorum."""

    image: MetadataImage
    voters: VoterSet | None
    """Those in the log, where it has them."""
    kraft_version: int
    transaction: MetadataTransaction = field(default_factory=MetadataTransaction)
    """The metadata transaction at the end; its records are not in the image."""


def read_stored(log: MetadataLog, empty: MetadataImage, up_to: int | None = None) -> StoredMetadata:
    """Replay the newest snapshot onto `empty`, then the log, as far as `up_to` if that is given.

    InvariantError if something cannot be understood.
    """
    builder = ImageBuilder(empty)
    offset, voters, kraft_version = 0, None, 0
    end_offset = log.end_offset if up_to is None else up_to
    epoch = 0
    transaction = MetadataTransaction()
    newest = log.newest_snapshot
    if newest is not None:
        snapshot = log.read_snapshot(newest)
        offset, epoch = newest.end_offset, newest.epoch
        kraft_version = snapshot.kraft_version
        if offset > 0:
            voters = snapshot.voters
        for record in snapshot.records:
            builder.replay(record)
    for entry in log.read_entries(offset):
        if entry.next_offset > end_offset:
            break
        epoch = entry.epoch
        for record in entry.records:
            if isinstance(record, KRaftVersionRecord):
                kraft_version = record.kraft_version
            elif isinstance(record, VotersRecord):
                voters = VoterSet.from_record(record)
        if not is_control(entry.records[0]):
            for applicable in transaction.take(entry.records):
                builder.replay(applicable)
    image = builder.build(offset=max(end_offset, offset) - 1, epoch=epoch)
    return StoredMetadata(image, voters, kraft_version, transaction)


def check_features(image: MetadataImage, kraft_version: int, directory: str) -> None:
    """Raise InvariantError if the cluster has a feature that is unknown here, or at a level beyond."""
    for name, level in {**image.features, KRAFT_VERSION: kraft_version}.items():
        known = FEATURES.get(name)
        # Features whose protocols are not built are left to their clients to find out.
        if level and (known is None or (level > known.max_level > 0)):
            limit = "unknown here" if known is None else f"known up to {known.max_level} here"
            raise InvariantError(
                f"the metadata in {directory} has {name}={level}, which is {limit}:"
                " it is of a later version; start the broker that wrote it, or choose another directory"
            )


def check_voters(asked: Collection[int], stored: Collection[int], directory: str) -> None:
    """Raise InvariantError if the node is to begin with other voters than are stored; with none stored, all will do."""
    if stored and set(asked) != set(stored):
        right = ",".join(f"{voter_id}@HOST:PORT" for voter_id in sorted(stored))
        raise InvariantError(
            f"the metadata in {directory} is of a quorum of the voters {_listed(stored)}, and this would be one of"
            f" {_listed(asked)}: set controller.quorum.voters={right}, as in the settings that it was started with"
            " before, or choose another directory"
        )


def _listed(voters: Collection[int]) -> str:
    return ", ".join(map(str, sorted(voters)))
