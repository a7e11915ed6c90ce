"""Received batches of the metadata log, validated before they are written.

A follower applies what it stores, and may lead with it: stored batches must be decodable, and their record counts must
match their offsets. `controller.raft.follower` checks on receipt that batches are whole, undamaged and in place; it is
checked again here, before the write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.batches import decode_entries
from protocol.errors import DecodeError, InvariantError, KafkaError
from protocol.plural import count_of
from protocol.record_batch import iter_batches

if TYPE_CHECKING:
    from controller.raft.log import Entry
    from controller.raft.messages import ReceivedBatches


def decode_received(received: ReceivedBatches, end_offset: int, end_epoch: int) -> list[Entry]:
    """Return the entries in batches for a log that ends at `end_offset` with a record of `end_epoch`.

    InvariantError if their offsets, epochs or sizes are inconsistent, or a record cannot be decoded.
    """
    try:
        entries = list(decode_entries(received.batches))
        headers = [header for _, header in iter_batches(received.batches)]
    except (DecodeError, KafkaError) as error:
        raise InvariantError(f"batches of the leader of epoch {received.epoch} cannot be decoded: {error}") from error
    size_bytes = sum(header.size_bytes for header in headers)
    if size_bytes != len(received.batches):
        raise InvariantError(
            f"{count_of(len(received.batches), 'byte')} received, {size_bytes} of them in whole batches"
        )
    next_offset, epoch = end_offset, end_epoch
    for entry, header in zip(entries, headers, strict=True):
        if entry.base_offset != next_offset or entry.next_offset != header.next_offset:
            raise InvariantError(
                f"{count_of(len(entry.records), 'record')} from {entry.base_offset} to {header.next_offset} received,"
                f" but {next_offset} is next"
            )
        if not epoch <= entry.epoch <= received.epoch:
            raise InvariantError(f"a batch has epoch {entry.epoch}, expected {epoch} to {received.epoch}")
        next_offset, epoch = entry.next_offset, entry.epoch
    if (received.base_offset, received.next_offset) != (end_offset, next_offset):
        raise InvariantError(
            f"batches from {end_offset} up to {next_offset}, not from {received.base_offset} up to"
            f" {received.next_offset}"
        )
    return entries
