from pathlib import Path
from struct import pack, unpack

import pytest

from protocol.checksum import crc32c
from protocol.record_batch import BatchHeader, end_txn_marker, iter_batches
from storage.log.producer_snapshot import SnapshotError, decode_snapshot, encode_snapshot
from storage.log.producer_state import AppendedBatch, ProducerStateEntry, ProducerStateManager

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka_directory" / "txn-0"
SNAPSHOT = (GOLDEN / "00000000000000000017.snapshot").read_bytes()
LOG = (GOLDEN / "00000000000000000000.log").read_bytes()


def headers() -> list[BatchHeader]:
    return [header for _, header in iter_batches(LOG)]


def scanned() -> ProducerStateManager:
    """Return the state after a scan of the whole of Kafka's log."""
    state = ProducerStateManager()
    for at, header in iter_batches(LOG):
        state.update(header, end_txn_marker(LOG[at : at + header.size_bytes]) if header.is_control else None)
    return state


def summary(state: ProducerStateManager) -> dict[int, tuple[object, ...]]:
    return {
        producer_id: (
            entry.epoch,
            entry.coordinator_epoch,
            entry.last_timestamp,
            entry.txn_first_offset,
            [(batch.last_sequence, batch.last_offset, batch.offset_delta) for batch in entry.batches[-1:]],
        )
        for producer_id, entry in state.producers.items()
    }


def test_kafkas_snapshot_equals_a_scan_of_kafkas_log() -> None:
    from_snapshot = decode_snapshot(SNAPSHOT, 17)
    from_log = scanned()
    from_log.high_watermark_moved(17)
    assert from_snapshot.end_offset == from_log.end_offset == 17
    assert summary(from_snapshot) == summary(from_log)
    assert len(from_snapshot.producers) == 3
    assert from_snapshot.first_unstable_offset == from_log.first_unstable_offset == 10


def test_our_snapshot_of_kafkas_log_has_kafkas_bytes() -> None:
    def entries(snapshot: bytes) -> list[bytes]:
        """Return the producers sorted, since Kafka writes them in hash table order."""
        return sorted(snapshot[at : at + 46] for at in range(10, len(snapshot), 46))

    ours = encode_snapshot(scanned())
    assert (ours[:2], ours[6:10]) == (SNAPSHOT[:2], SNAPSHOT[6:10])
    assert entries(ours) == entries(SNAPSHOT)
    assert unpack(">I", ours[2:6]) == (crc32c(ours[6:]),)


def test_snapshot_survives_a_round_trip() -> None:
    entry = ProducerStateEntry(3, 2, 1234, 50, [AppendedBatch(9, 60, 4, 1234)])
    state = decode_snapshot(encode_snapshot(ProducerStateManager(70, {2**40: entry, 5: ProducerStateEntry(1)})), 70)
    assert summary(state) == {2**40: (3, 2, 1234, 50, [(9, 60, 4)]), 5: (1, -1, -1, -1, [])}
    assert state.first_unstable_offset == 50


def test_no_producers_make_a_snapshot_too() -> None:
    assert decode_snapshot(encode_snapshot(ProducerStateManager(3)), 3).producers == {}


def sealed(body: bytes, version: int = 1) -> bytes:
    return pack(">hI", version, crc32c(body)) + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        SNAPSHOT[:9],
        SNAPSHOT[:-1],
        SNAPSHOT + b"\0",
        SNAPSHOT[:20] + b"\x01" + SNAPSHOT[21:],
        b"\0\2" + SNAPSHOT[2:],
        sealed(pack(">i", 1)),
        sealed(pack(">i", -1)),
        sealed(pack(">i", 0) + bytes(46)),
        sealed(pack(">i", 0), version=2),
    ],
)
def test_a_damaged_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        decode_snapshot(data, 17)


def test_earlier_batches_refill_the_window_behind_the_last() -> None:
    state = decode_snapshot(SNAPSHOT, 17)
    state.refill(headers())
    assert {producer_id: entry.batches for producer_id, entry in state.producers.items()} == {
        producer_id: entry.batches for producer_id, entry in scanned().producers.items()
    }


def test_refilling_with_a_part_of_the_log_gives_that_part_of_the_window() -> None:
    state = decode_snapshot(SNAPSHOT, 17)
    state.refill(headers()[8:])
    assert [batch.last_offset for batch in state.producers[16].batches] == [8, 12]


def test_refilling_restores_no_producer_and_no_older_epoch() -> None:
    state = ProducerStateManager(17, {16: ProducerStateEntry(5, batches=[AppendedBatch(0, 12, 0, 0)])})
    state.refill(headers())
    assert list(state.producers) == [16]
    assert len(state.producers[16].batches) == 1
