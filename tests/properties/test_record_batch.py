"""A batch is a list of records; any damage to its bytes ends in records or in a Kafka error."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from protocol.compression import Compression
from protocol.errors import KafkaError
from protocol.record import Record
from protocol.record_batch import build_batch, check_batch, iter_records

timestamps = st.integers(-1, 2**62)
data = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.binary(max_size=20), data), max_size=4).map(tuple)
records = st.lists(st.builds(Record, st.just(0), timestamps, data, data, headers), min_size=1, max_size=20)
codecs = st.sampled_from(Compression)


@given(records=records, codec=codecs, base_offset=st.integers(0, 2**62))
def test_batch_returns_its_records(records: list[Record], codec: Compression, base_offset: int) -> None:
    batch = build_batch(records, base_offset=base_offset, compression=codec)
    expected = [record._replace(offset=base_offset + at) for at, record in enumerate(records)]
    assert list(iter_records(batch)) == expected


@given(records=records, codec=codecs, edits=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=5))
def test_damage_ends_in_a_kafka_error_or_in_records(
    records: list[Record], codec: Compression, edits: list[tuple[int, int]]
) -> None:
    batch = build_batch(records, compression=codec)
    intact = bytes(batch)
    for at, value in edits:
        batch[at % len(batch)] = value
    with contextlib.suppress(KafkaError):
        header = check_batch(memoryview(batch))
        # Only the leader's two fields are outside the CRC, and a client's base offset is checked.
        assert batch[16:] == intact[16:]
        assert header.record_count == len(records)
    with contextlib.suppress(KafkaError):
        for record in iter_records(bytes(batch), 100_000):
            assert isinstance(record, Record)


@given(st.binary(max_size=200))
def test_random_bytes_are_rejected_or_checked(noise: bytes) -> None:
    with contextlib.suppress(KafkaError):
        check_batch(memoryview(noise))
