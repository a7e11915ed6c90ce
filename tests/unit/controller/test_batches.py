"""Raft log entries encoded as record batches."""

from __future__ import annotations

import pytest

from controller.batches import decode_entries, encode_entry, in_batches
from controller.raft.log import Entry
from controller.raft.voters import Voter, VoterSet
from protocol.errors import DecodeError
from protocol.record_batch import build_batch, control_record_key, read_header
from protocol.records.control import KRaftVersionRecord, LeaderChangeMessage
from protocol.records.metadata import NoOpRecord, ProducerIdsRecord

METADATA = Entry(7, 3, (NoOpRecord(), ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=3000)))
CONTROL = Entry(
    9,
    3,
    (
        LeaderChangeMessage(
            version=0,
            leader_id=1,
            voters=[LeaderChangeMessage.Voter(voter_id=1)],
            granting_voters=[LeaderChangeMessage.Voter(voter_id=1)],
        ),
        KRaftVersionRecord(version=0, kraft_version=1),
        VoterSet([Voter(1, b"d" * 16)]).to_record(),
    ),
)


def test_entries_round_trip_through_batches() -> None:
    data = encode_entry(METADATA, 1000) + encode_entry(CONTROL, 1001)
    assert list(decode_entries(data)) == [METADATA, CONTROL]


def test_only_raft_s_own_records_are_control_records() -> None:
    assert not read_header(encode_entry(METADATA, 1000)).is_control
    header = read_header(encode_entry(CONTROL, 1000))
    assert header.is_control
    assert (header.base_offset, header.partition_leader_epoch, header.record_count) == (9, 3, 3)
    assert header.max_timestamp == 1000


def test_truncated_batch_is_rejected() -> None:
    data = encode_entry(METADATA, 1000)
    assert list(decode_entries(data[:-1])) == []


@pytest.mark.parametrize(
    "batch",
    [
        build_batch([(None, None)]),
        build_batch([(None, b"\x01\x63\x00")]),
        build_batch([(control_record_key(0), b"\x00\x00\x00\x00\x00\x00")], is_control=True),  # type: ignore[arg-type]  # wrong on purpose
    ],
    ids=["no value", "unknown record", "transaction marker"],
)
def test_unreadable_records_are_reported(batch: bytearray) -> None:
    with pytest.raises(DecodeError):
        list(decode_entries(batch))


def test_records_are_split_into_consecutive_batches() -> None:
    entries = list(in_batches([NoOpRecord()] * 5, 10, 4, per_batch=2))
    assert [(entry.base_offset, entry.epoch, len(entry.records)) for entry in entries] == [
        (10, 4, 2),
        (12, 4, 2),
        (14, 4, 1),
    ]
    assert list(in_batches([], 0, 0, per_batch=2)) == []
