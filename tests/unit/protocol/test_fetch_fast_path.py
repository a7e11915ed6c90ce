from __future__ import annotations

import pytest

from protocol.api import ApiKey
from protocol.fetch_fast_path import (
    FIRST_VERSION,
    TOPIC_IDS_FROM_VERSION,
    Found,
    encode_plain_response,
    encode_topic_name,
)
from protocol.headers import response_prefix
from protocol.messages.fetch import FetchResponse
from protocol.primitives import read_parts

VERSIONS = range(FIRST_VERSION, 19)
IDS = [bytes(range(16)), b"?" * 16]
NAMES = ["orders", "\u00e9" * 100]


class Slice:
    """Records in a file."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def read(self, offset: int, size: int) -> bytes:
        return bytes(at % 251 for at in range(offset, offset + size))


def shown(topics: list[list[Found]], version: int, read_committed: bool) -> bytes:
    """Return the frame that the message class encodes."""
    aborted_transaction = FetchResponse.Topic.Partition.AbortedTransaction
    response = FetchResponse(
        session_id=77,
        responses=[
            FetchResponse.Topic(
                topic=NAMES[number],
                topic_id=IDS[number],
                partitions=[
                    FetchResponse.Topic.Partition(
                        partition_index=index,
                        high_watermark=high_watermark,
                        last_stable_offset=stable,
                        log_start_offset=start,
                        aborted_transactions=[
                            aborted_transaction(producer_id=producer_id, first_offset=first_offset)
                            for producer_id, first_offset, _ in aborted
                        ]
                        if read_committed
                        else None,
                        records=list(slices) or b"",
                    )
                    for index, high_watermark, stable, start, slices, _, aborted in found
                ],
            )
            for number, found in enumerate(topics)
        ],
    )
    frame = response_prefix(ApiKey.FETCH, version, 5) + response.encode(version)
    return len(frame).to_bytes(4, "big") + frame


def found(index: int, *sizes: int) -> Found:
    return index, 2**40 + index, 300 + index, index, [Slice(size) for size in sizes], sum(sizes), ()


def with_aborted(one: Found, count: int) -> Found:
    """Return the partition with aborted transactions; they have a field that the response does not have."""
    return *one[:6], [(2**40 + number, number, -1) for number in range(count)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("read_committed", [False, True])
@pytest.mark.parametrize(
    "topics",
    [
        [],
        [[found(0)]],
        [[found(3, 126)]],
        [[found(3, 127), found(4)]],
        [[found(4), found(3, 100, 20_000), found(9, 1)], [found(1), found(2, 70)]],
        [[found(index, 5) for index in range(200)]],
    ],
    ids=["nothing", "no news", "one", "two", "several", "many"],
)
def test_response_equals_the_message_encoding(topics: list[list[Found]], version: int, read_committed: bool) -> None:
    named = IDS if version >= TOPIC_IDS_FROM_VERSION else [encode_topic_name(name) for name in NAMES]
    answer = encode_plain_response(5, 77, dict(zip(named, topics, strict=False)), read_committed)
    assert read_parts(answer) == shown(topics, version, read_committed)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [1, 126, 127])
def test_aborted_transactions_equal_the_message_encoding(count: int, version: int) -> None:
    topics = [[found(4, 10), with_aborted(found(3, 100, 20_000), count), found(9, 1)]]
    named = IDS[0] if version >= TOPIC_IDS_FROM_VERSION else encode_topic_name(NAMES[0])
    answer = encode_plain_response(5, 77, {named: topics[0]}, read_committed=True)
    assert read_parts(answer) == shown(topics, version, read_committed=True)
