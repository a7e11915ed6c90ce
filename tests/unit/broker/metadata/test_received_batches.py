"""Validation of record batches that a follower received from its leader."""

from __future__ import annotations

from typing import Any

import pytest

from broker.metadata.received_batches import decode_received
from controller.batches import encode_entry
from controller.raft.log import Entry
from controller.raft.messages import ReceivedBatches
from protocol.checksum import crc32c
from protocol.errors import InvariantError
from protocol.record_batch import build_batch, read_header, set_header
from protocol.records.control import LeaderChangeMessage
from protocol.records.metadata import NoOpRecord

LEADER_CHANGE = LeaderChangeMessage(version=0, leader_id=1, voters=[], granting_voters=[])


def entry(base_offset: int, count: int = 1, epoch: int = 3) -> Entry:
    return Entry(base_offset, epoch, (NoOpRecord(),) * count)


def received(*entries: Entry, epoch: int = 3, **changed: Any) -> ReceivedBatches:
    batches = b"".join(encode_entry(entry, 1000) for entry in entries)
    base_offset, next_offset = (entries[0].base_offset, entries[-1].next_offset) if entries else (10, 10)
    return ReceivedBatches(base_offset, next_offset, epoch, batches)._replace(**changed)


def test_entries_are_decoded_as_leader_encoded_them() -> None:
    sent = [Entry(10, 3, (LEADER_CHANGE,)), entry(11, 4), entry(15)]
    assert decode_received(received(*sent), 10, 2) == sent


def test_bytes_may_lie_in_a_frame() -> None:
    sent = received(entry(10))
    assert decode_received(sent._replace(batches=memoryview(bytearray(sent.batches))), 10, 3) == [entry(10)]


def test_empty_bytes_are_no_batches() -> None:
    assert decode_received(received(), 10, 2) == []


@pytest.mark.parametrize("at", [17, 40, 61, -1])
def test_a_damaged_batch_is_refused(at: int) -> None:
    sent = received(entry(10), entry(11))
    damaged = bytearray(sent.batches)
    damaged[at] ^= 1
    with pytest.raises(InvariantError, match="epoch 3 cannot be decoded"):
        decode_received(sent._replace(batches=damaged), 10, 3)


def test_a_batch_that_came_in_part_is_refused() -> None:
    sent = received(entry(10), entry(11))
    with pytest.raises(InvariantError, match="in whole batches"):
        decode_received(sent._replace(batches=sent.batches[:-1]), 10, 3)


def test_a_gap_between_batches_is_refused() -> None:
    with pytest.raises(InvariantError, match="offset 12 instead of 11"):
        decode_received(received(entry(10), entry(12)), 10, 3)


@pytest.mark.parametrize("end_offset", [9, 11])
def test_batches_not_starting_at_log_end_are_refused(end_offset: int) -> None:
    with pytest.raises(InvariantError, match=f"but {end_offset} is next"):
        decode_received(received(entry(10)), end_offset, 3)


def test_batches_with_inconsistent_headers_are_refused() -> None:
    with pytest.raises(InvariantError, match="from 10 up to 11, not from 10 up to 12"):
        decode_received(received(entry(10), next_offset=12), 10, 3)


@pytest.mark.parametrize(("epochs", "end_epoch"), [((3, 2), 1), ((2,), 3), ((4,), 3)])
def test_decreasing_epochs_and_epochs_above_leaders_are_refused(epochs: tuple[int, ...], end_epoch: int) -> None:
    entries = [entry(10 + at, epoch=epoch) for at, epoch in enumerate(epochs)]
    with pytest.raises(InvariantError, match="a batch has epoch"):
        decode_received(received(*entries), 10, end_epoch)


def test_new_epoch_may_start_within_received_batches() -> None:
    entries = [entry(10, epoch=2), entry(11, epoch=3)]
    assert decode_received(received(*entries), 10, 1) == entries


def test_fewer_records_than_offsets_are_refused() -> None:
    batch = encode_entry(entry(10), 1000)
    header = read_header(batch)._replace(last_offset_delta=1)
    set_header(batch, header)
    set_header(batch, header._replace(crc=crc32c(batch[21:])))
    with pytest.raises(InvariantError, match="1 record from 10 to 12"):
        decode_received(ReceivedBatches(10, 12, 3, batch), 10, 3)


def test_unknown_record_is_refused() -> None:
    batch = build_batch([(None, b"\1\x7f\0\0")], base_offset=10, leader_epoch=3, timestamp_ms=0)
    with pytest.raises(InvariantError, match="cannot be decoded"):
        decode_received(ReceivedBatches(10, 11, 3, batch), 10, 3)
