"""Snapshots: a metadata image as records, and as the bytes of a checkpoint file (KIP-630).

A snapshot is a log of its own: a header with the timestamp of the last contained record, the kraft.version and the
voters, the records that build the image, and a footer, without which the file is incomplete. It replaces the log below
its end offset and is named after that offset and its epoch; its own offsets start at 0.

`bootstrap.checkpoint` has the same format; it holds the first records of a new cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from controller.batches import decode_records, encode_entry, in_batches, is_control
from controller.commands.bootstrap import METADATA_VERSION
from controller.delegation_tokens import token_record
from controller.image import MetadataImage
from controller.raft.log import Entry, SnapshotId
from controller.raft.voters import VoterSet
from controller.records import acl_record, broker_record, controller_record, partition_record
from protocol.errors import DecodeError
from protocol.primitives import Buffer
from protocol.records.control import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from protocol.records.metadata import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from protocol.schema import Message
from storage.steps import Steps, finish

RECORDS_A_STEP = 50
"""Records decoded, or applied, in about a millisecond."""

_RECORDS_PER_BATCH = 250
_FILE_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def parse_snapshot_name(name: str) -> SnapshotId | None:
    """Return the id of the snapshot in a file of this name; None for other files."""
    found = _FILE_NAME.fullmatch(name)
    return SnapshotId(int(found[1]), int(found[2])) if found else None


class Snapshot(NamedTuple):
    """The contents of a checkpoint file."""

    kraft_version: int
    voters: VoterSet | None
    records: tuple[Message, ...]


def encode_snapshot(
    records: Iterable[Message],
    *,
    epoch: int,
    now_ms: int,
    last_timestamp_ms: int,
    voters: VoterSet | None = None,
) -> Iterator[bytearray]:
    """Yield the batches of a checkpoint file; `voters` are those of a quorum at kraft.version 1, else None.

    Each step encodes one batch, which takes a few milliseconds, so that other work can run in between.
    """
    header_records: list[Message] = [SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_timestamp_ms)]
    if voters is not None:
        header_records += [KRaftVersionRecord(version=0, kraft_version=1), voters.to_record()]
    yield encode_entry(Entry(0, epoch, tuple(header_records)), now_ms)
    next_offset = len(header_records)
    for entry in in_batches(records, next_offset, epoch, _RECORDS_PER_BATCH):
        yield encode_entry(entry, now_ms)
        next_offset = entry.next_offset
    yield encode_entry(Entry(next_offset, epoch, (SnapshotFooterRecord(version=0),)), now_ms)


def decode_snapshot(data: Buffer) -> Snapshot:
    """Return the contents of a checkpoint file; DecodeError if it is incomplete."""
    return finish(decode_snapshot_in_steps(data))


def decode_snapshot_in_steps(data: Buffer) -> Steps[Snapshot]:
    """Decode a checkpoint file in steps and return its contents; DecodeError if it is incomplete."""
    kraft_version, voters = 0, None
    first: Message | None = None
    last: Message | None = None
    records: list[Message] = []
    for number, last in enumerate(decode_records(data), 1):
        first = last if first is None else first
        if isinstance(last, KRaftVersionRecord):
            kraft_version = last.kraft_version
        elif isinstance(last, VotersRecord):
            voters = VoterSet.from_record(last)
        elif not is_control(last):
            records.append(last)
        if number % RECORDS_A_STEP == 0:
            yield None
    if not isinstance(first, SnapshotHeaderRecord):
        raise DecodeError("the snapshot has no header")
    if not isinstance(last, SnapshotFooterRecord):
        raise DecodeError("the snapshot has no footer")
    return Snapshot(kraft_version, voters, tuple(records))


def image_records(image: MetadataImage) -> Iterator[Message]:
    """Yield the records that build `image`, in Kafka's order.

    metadata.version comes first: it defines how to read the rest.
    """
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])
    for broker in image.brokers.values():
        yield broker_record(broker)
    for controller in image.controllers.values():
        yield controller_record(controller)
    for topic in image.topics():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for partition in topic.partitions.values():
            yield partition_record(topic.topic_id, partition)
    for (resource_type, resource_name), values in image.all_configs().items():
        for name, value in values.items():
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
    for entity, quotas in image.client_quotas.items():
        parts = [ClientQuotaRecord.Entity(entity_type=kind, entity_name=name) for kind, name in entity]
        for key, quota in quotas.items():
            yield ClientQuotaRecord(entity=parts, key=key, value=quota, remove=False)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    for acl_id, acl in image.acls.by_id.items():
        yield acl_record(acl_id, acl)
    for (name, mechanism), credential in image.scram_credentials.items():
        yield UserScramCredentialRecord(name=name, mechanism=mechanism, **credential._asdict())
    for token in image.delegation_tokens.values():
        yield token_record(token)
