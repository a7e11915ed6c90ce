import pytest

from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.record import Record, decode_record, put_record

# length 12, attributes, timestamp delta 1, offset delta 2, key "k", value null, one header "h" = "v"
BYTES = bytes.fromhex("16 00 02 04 02 6b 01 02 02 68 02 76")
RECORD = Record(102, 1001, b"k", None, ((b"h", b"v"),))


def test_a_record_is_encoded_relative_to_its_batch() -> None:
    out = bytearray()
    put_record(out, 1, 2, RECORD.key, RECORD.value, RECORD.headers)
    assert bytes(out) == BYTES


def test_record_is_decoded_in_place() -> None:
    assert decode_record(b"??" + BYTES + b"!", 2, 100, 1000) == (RECORD, 2 + len(BYTES))


@pytest.mark.parametrize("size", range(len(BYTES)))
def test_a_record_that_ends_early_is_refused(size: int) -> None:
    with pytest.raises(IndexError):
        decode_record(BYTES[:size], 0, 0, 0)


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ("18 00 02 04 02 6b 01 02 02 68 02 76 00", "after its last field"),
        ("14 00 02 04 02 6b 01 02 02 68 02 76", "after its last field"),
        ("12 00 02 04 02 6b 01 02 01 01", "without a key"),
        ("16 00 02 04 02 6b 01 01 02 68 02 76", "-1 headers"),
        ("16 00 02 04 02 6b 01 7e 02 68 02 76", "63 headers"),
    ],
)
def test_inconsistent_record_lengths_are_refused(broken: str, problem: str) -> None:
    with pytest.raises(KafkaError, match=problem) as refused:
        decode_record(bytes.fromhex(broken), 0, 0, 0)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_a_value_longer_than_the_bytes_left_is_refused() -> None:
    with pytest.raises(IndexError):
        decode_record(bytes.fromhex("0c 00 00 00 01 fe ff 01 00"), 0, 0, 0)


def test_a_varint_without_end_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode_record(b"\xff" * 20, 0, 0, 0)
