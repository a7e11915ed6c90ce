"""Batches of the metadata log as a leader sent them, decoded before they are stored.

What is stored must be understood, and say as much as its offsets claim: a follower applies what it has, and may lead by
it. That the batches are whole, undamaged and in their place is found out when they come (`controller.raft_fetching`);
it is asked for again here, where they go to the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.batches import decode_entries
from protocol.errors import DecodeError, InvariantError, KafkaError
from protocol.plural import count_of
from protocol.record_batch import iter_batches

if TYPE_CHECKING:
    from controller.raft.log import Entry
    from controller.raft.messages import Received


def decode_received(received: Received, end_offset: int, end_epoch: int) -> list[Entry]:
    """Return the entries in batches that follow a log which ends at `end_offset` with a record of `end_epoch`.

    InvariantError if they are not what they are said to be, or a record cannot be understood.
    """
    try:
        entries = list(decode_entries(received.batches))
        headers = [header for _, header in iter_batches(received.batches)]
    except (DecodeError, KafkaError) as error:
        raise InvariantError(f"batches of the leader of epoch {received.epoch} make no sense: {error}") from error
    size_bytes = sum(header.size_bytes for header in headers)
    if size_bytes != len(received.batches):
        raise InvariantError(
            f"{count_of(len(received.batches), 'byte')} of batches, {size_bytes} of them in whole ones"
        )
    next_offset, epoch = end_offset, end_epoch
    for entry, header in zip(entries, headers, strict=True):
        if entry.base_offset != next_offset or entry.next_offset != header.next_offset:
            raise InvariantError(
                f"{count_of(len(entry.records), 'record')} from {entry.base_offset} up to {header.next_offset} came"
                f" where {next_offset} is next"
            )
        if not epoch <= entry.epoch <= received.epoch:
            raise InvariantError(f"a batch of epoch {entry.epoch} came between {epoch} and {received.epoch}")
        next_offset, epoch = entry.next_offset, entry.epoch
    if (received.base_offset, received.next_offset) != (end_offset, next_offset):
        raise InvariantError(
            f"batches from {end_offset} up to {next_offset}, not from {received.base_offset} up to"
            f" {received.next_offset}"
        )
    return entries
