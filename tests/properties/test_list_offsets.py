"""Rule 22: ListOffsets against a scan of every record, for each timestamp, isolation level and kind of reader.

A partition has two replicas, one of which lags behind; some of its transactions are open. Consumers read up to the
high watermark, read_committed consumers up to the last stable offset, replicas up to the log end.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.api import ApiKey
from protocol.compression import Compression
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.record import Record
from tests.examples import examples
from tests.unit.broker.node import Node

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
LARGEST_TIME = 12
CONSUMER, OTHER_REPLICA = -1, 2
NOTHING = (-1, -1)

Batch = tuple[list[int], bool, Compression]
BATCHES = st.lists(
    st.tuples(
        st.lists(st.integers(0, LARGEST_TIME), min_size=1, max_size=4),
        st.booleans(),  # whether it begins a transaction, or belongs to the open one
        st.sampled_from([Compression.NONE, Compression.GZIP]),
    ),
    max_size=10,
)


def query(node: Node, version: int, replica: int, isolation: int, timestamp: int) -> tuple[int, tuple[int, int]]:
    """Return the error code, and (offset, timestamp)."""
    Topic = ListOffsetsRequest.Topic  # noqa: N806
    wanted = Topic.Partition(partition_index=0, timestamp=timestamp)
    fields: dict[str, Any] = {"replica_id": replica}
    if version >= 2:
        fields["isolation_level"] = isolation
    topics = [Topic(name="t", partitions=[wanted])]
    [[answer]] = [
        topic.partitions for topic in node.answer(ApiKey.LIST_OFFSETS, version, topics=topics, **fields).topics
    ]
    return answer.error_code, (answer.offset, answer.timestamp)


def brute_force(times: list[int], start: int, limit: int, timestamp: int) -> tuple[int, int]:
    """Return the specified (offset, timestamp), from the timestamps of all records."""
    if timestamp == LATEST:
        return limit, -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return start, -1
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    if timestamp == MAX_TIMESTAMP:
        # Taken over all stored records, as in Apache Kafka; a result beyond the reader's limit is not returned.
        offset = times.index(max(times)) if times else limit
    else:
        offset = next((at for at in range(start, len(times)) if times[at] >= timestamp), limit)
    return (offset, times[offset]) if offset < limit else NOTHING


@settings(max_examples=examples(60), deadline=None)
@given(batches=BATCHES, lag=st.integers(0, 8), start=st.integers(0, 12))
def test_rule_22_list_offsets_equals_a_scan_for_every_timestamp(batches: list[Batch], lag: int, start: int) -> None:
    with TemporaryDirectory() as folder:
        node = Node(folder)
        try:
            node.start()
            node.create("t", replicas=(1, 2))
            times: list[int] = []
            unstable = None
            sequence = 0
            for stamps, transactional, codec in batches:
                fields: dict[str, Any] = {"compression": codec}
                if transactional:
                    unstable = len(times) if unstable is None else unstable
                    fields |= {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
                    sequence += len(stamps)
                records = [Record(0, stamp, None, b"v") for stamp in stamps]
                node.append("t", *records, is_transactional=transactional, **fields)
                times += stamps
            high_watermark = max(0, len(times) - lag)
            node.follower_fetch(node.partition("t"), OTHER_REPLICA, high_watermark, 0)
            start = min(start, high_watermark)
            node.partition("t").log.advance_log_start(start)

            stable = high_watermark if unstable is None else max(min(unstable, high_watermark), start)
            limits = {(CONSUMER, 0): high_watermark, (CONSUMER, 1): stable, (OTHER_REPLICA, 0): len(times)}
            for (replica, isolation), limit in limits.items():
                for timestamp in range(EARLIEST_PENDING_UPLOAD, LARGEST_TIME + 2):
                    expected = brute_force(times, start, limit, timestamp)
                    assert query(node, 11, replica, isolation, timestamp) == (ErrorCode.NONE, expected)
            for version in range(1, 11):
                for timestamp, since in SINCE.items():
                    code, found = query(node, version, CONSUMER, 0, timestamp)
                    assert code == (ErrorCode.NONE if version >= since else ErrorCode.UNSUPPORTED_VERSION)
                    if version >= since:
                        assert found == brute_force(times, start, high_watermark, timestamp)
        finally:
            node.stop()
