"""Every response about records, in every version, equals the one that Apache Kafka sends to the same request.

Intended differences are not tested or not compared: error messages, which Kafka seldom sends; the log start
offset beside an error; the order in which a session's partitions are returned; batches that Kafka repairs or fails
on (bytes after the batch, null records, an unknown codec, LogAppendTime set by a client), which we reject; and the
timestamp in Kafka's response to a duplicate batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from protocol.api import ApiKey
from protocol.checksum import crc32c
from protocol.compression import Compression
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from protocol.messages.produce import ProduceRequest
from protocol.record import Record
from protocol.record_batch import ControlType, build_batch, control_record_key
from protocol.schema import Message
from tests.raw_client import RawClient

NOW_MS = 1_700_000_000_000
MISSING = "missing"
NOT_COMPARED = {"error_message", "message", "batch_index_error_message", "host", "port", "session_id"}


class Side:
    """One broker, and the values that only it has: topic ids and the current session id."""

    def __init__(self, bootstrap: str) -> None:
        self.client = RawClient(bootstrap)
        self.topic_ids = {MISSING: b"?" * 16}
        self.session_id = 0


class Both:
    """The two brokers, with the same requests sent to both."""

    def __init__(self, ours: str, kafkas: str) -> None:
        self.sides = (Side(ours), Side(kafkas))
        self._names = count()

    def create(self, partitions: int = 1, **configs: str) -> str:
        """Create a topic in both and return its name."""
        name = f"records{next(self._names)}"
        topic = CreateTopicsRequest.Topic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[
                CreateTopicsRequest.Topic.Config(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        for side in self.sides:
            [created] = side.client.call(
                ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout_ms=30_000, validate_only=False
            ).topics
            assert created.error_code == 0, created
            side.topic_ids[name] = created.topic_id
            self._wait_for(side, name, partitions)
        return name

    def _wait_for(self, side: Side, name: str, partitions: int) -> None:
        """Wait until the broker serves a topic: Kafka responds before it does."""
        requested = [ListOffsetsRequest.Topic.Partition(partition_index=at, timestamp=-1) for at in range(partitions)]
        topics = [ListOffsetsRequest.Topic(name=name, partitions=requested)]
        while any(
            found.error_code
            for found in side.client.call(ApiKey.LIST_OFFSETS, 8, replica_id=-1, topics=topics).topics[0].partitions
        ):
            pass

    def same(self, key: ApiKey, version: int, **fields: Any) -> Any:
        """Send a request to both; return our response, which must equal Kafka's. Fields may depend on the side."""
        ours, kafkas = (
            side.client.call(
                key, version, **{name: value(side) if callable(value) else value for name, value in fields.items()}
            )
            for side in self.sides
        )
        assert plain(ours, self.sides[0]) == plain(kafkas, self.sides[1])
        if key is ApiKey.FETCH:
            for side, response in zip(self.sides, (ours, kafkas), strict=True):
                assert bool(response.session_id) == bool(ours.session_id)
                side.session_id = response.session_id or side.session_id
        return ours

    def produce(self, topic: str, batch: bytes | None, version: int = 12, *, acks: int = 1, index: int = 0) -> Any:
        partitions = [ProduceRequest.Topic.Partition(index=index, records=batch)]

        def topics(side: Side) -> list[ProduceRequest.Topic]:
            return [ProduceRequest.Topic(name=topic, topic_id=side.topic_ids[topic], partition_data=partitions)]

        answer = self.same(ApiKey.PRODUCE, version, acks=acks, timeout_ms=10_000, topic_data=topics)
        return answer.responses[0].partition_responses[0]

    def fetch(
        self,
        topic: str,
        version: int,
        *wanted: FetchRequest.Topic.Partition,
        forgotten: tuple[int, ...] = (),
        **more: Any,
    ) -> Any:
        def topics(side: Side) -> list[FetchRequest.Topic]:
            topic_id = side.topic_ids[topic]
            return [FetchRequest.Topic(topic=topic, topic_id=topic_id, partitions=list(wanted))] if wanted else []

        def forget(side: Side) -> list[FetchRequest.ForgottenTopic]:
            topic_id = side.topic_ids[topic]
            gone = FetchRequest.ForgottenTopic(topic=topic, topic_id=topic_id, partitions=list(forgotten))
            return [gone] if forgotten else []

        fields: dict[str, Any] = {"max_wait_ms": 50, "min_bytes": 1} | more
        return self.same(ApiKey.FETCH, version, topics=topics, forgotten_topics_data=forget, **fields)

    def list_offsets(
        self, topic: str, version: int, *timestamps: int, epoch: int = -1, index: int = 0, **more: Any
    ) -> Any:
        requested = [
            ListOffsetsRequest.Topic.Partition(partition_index=index, timestamp=at, current_leader_epoch=epoch)
            for at in timestamps
        ]
        fields: dict[str, Any] = {"replica_id": -1, "isolation_level": 0} | more
        topics = [ListOffsetsRequest.Topic(name=topic, partitions=requested)]
        return self.same(ApiKey.LIST_OFFSETS, version, topics=topics, **fields)


def plain(value: Any, side: Side) -> Any:
    """Return a response as plain values, without those that may differ."""
    if isinstance(value, Message) or hasattr(value, "__slots__"):
        # Defaults of nested structs have a class without its own slots.
        names = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
        fields = {name: plain(getattr(value, name), side) for name in names if name not in NOT_COMPARED}
        if fields.get("error_code"):
            fields.pop("log_start_offset", None)
            fields["aborted_transactions"] = None
        if "base_offset" in fields:
            fields.pop("log_append_time_ms")
        if "partitions" in fields:
            fields["partitions"].sort(key=lambda partition: partition.get("partition_index", 0))
        return fields
    if isinstance(value, list):
        return [plain(item, side) for item in value]
    if isinstance(value, (memoryview, bytearray)):
        return bytes(value)
    for name, topic_id in side.topic_ids.items():
        if value == topic_id:
            return name
    return value


@pytest.fixture(scope="module")
def both(bootstraps: tuple[str, str]) -> Iterator[Both]:
    brokers = Both(*bootstraps)
    yield brokers
    for side in brokers.sides:
        side.client.close()


def batch(records: Any = ((None, b"value"),), **options: Any) -> bytearray:
    return build_batch(records, **{"timestamp_ms": NOW_MS} | options)


def patched(at: int, value: int, size: int, original: bytearray | None = None) -> bytearray:
    """Return a batch with a number in its header replaced, and the CRC recomputed."""
    changed = original or batch()
    changed[at : at + size] = value.to_bytes(size, "big")
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return changed


def wanted(index: int = 0, offset: int = 0, **more: Any) -> FetchRequest.Topic.Partition:
    fields: dict[str, Any] = {"partition_max_bytes": 1 << 20} | more
    return FetchRequest.Topic.Partition(partition=index, fetch_offset=offset, **fields)


class TestProduce:
    @pytest.mark.parametrize("version", range(3, 14))
    def test_every_version(self, both: Both, version: int) -> None:
        topic = both.create()
        for acks in (1, -1):
            both.produce(topic, bytes(batch([(b"k", b"1"), (b"k", b"2")])), version, acks=acks)
        both.produce(topic, bytes(batch()), version, index=5)
        both.produce(MISSING, bytes(batch()), version)
        both.produce(topic, bytes(batch()), version, acks=2)
        both.produce(topic, bytes(batch(compression=Compression.ZSTD)), version)

    @pytest.mark.parametrize(
        "refused",
        [
            b"",
            batch() + batch(),
            batch()[:-1],
            batch()[:40],
            batch()[:-3] + b"!!!",
            patched(16, 1, 1),
            batch([(control_record_key(ControlType.COMMIT), bytes(6))], is_control=True),
            batch([(None, bytes(1_100_000))]),
            patched(57, 2, 4),
            patched(57, 0, 4),
            patched(23, 7, 4),
            patched(0, 7, 8),
            batch(producer_id=78, producer_epoch=0, base_sequence=-1),
        ],
        ids=[
            "empty",
            "two batches",
            "cut short",
            "cut in the header",
            "damaged",
            "magic 1",
            "control",
            "too large",
            "two records of one",
            "no record of one",
            "last offset delta",
            "base offset",
            "producer without a sequence",
        ],
    )
    def test_what_is_refused(self, both: Both, refused: bytes) -> None:
        assert both.produce(both.create(), bytes(refused)).error_code != ErrorCode.NONE

    def test_sequences_of_an_idempotent_producer(self, both: Both) -> None:
        topic = both.create()
        steps = [(0, 0), (1, 0), (0, 0), (5, 0), (2, 0), (3, 0), (4, 0), (5, 0), (0, 0), (1, 0), (3, 1), (0, 1), (6, 0)]
        for sequence, epoch in steps:
            records = batch(producer_id=9, producer_epoch=epoch, base_sequence=sequence)
            both.produce(topic, bytes(records), acks=-1)
        both.produce(topic, bytes(batch(producer_id=10, producer_epoch=0, base_sequence=5)), acks=-1)

    def test_records_without_keys_in_a_compacted_topic(self, both: Both) -> None:
        topic = both.create(cleanup_policy="compact")
        for codec in (Compression.NONE, Compression.GZIP):
            both.produce(topic, bytes(batch([(b"k", b"v"), (None, b"v"), (None, b"w")], compression=codec)))
            both.produce(topic, bytes(batch([(b"k", b"v")], compression=codec)))


class TestListOffsets:
    @pytest.fixture
    def topic(self, both: Both) -> str:
        topic = both.create(2)
        for timestamps in ([100, 300, 200], [250, 400], [150]):
            both.produce(topic, bytes(batch([Record(0, at, None, b"v") for at in timestamps])))
        return topic

    @pytest.mark.parametrize("version", range(1, 12))
    def test_every_time_in_every_version(self, both: Both, topic: str, version: int) -> None:
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, 100, 101, 300, 301, 400, 401):
            both.list_offsets(topic, version, timestamp)
            both.list_offsets(topic, version, timestamp, index=1)

    def test_list_offsets_by_replica_id_isolation_level_and_leader_epoch(self, both: Both, topic: str) -> None:
        both.list_offsets(topic, 11, -1, isolation_level=1)
        both.list_offsets(topic, 11, -1, -2)
        both.list_offsets(topic, 11, -1, index=7)
        both.list_offsets(MISSING, 11, -1)
        for replica_id in (-2, 5):
            both.list_offsets(topic, 11, -1, replica_id=replica_id)
        for version in (4, 11):
            for epoch in (0, 1):
                both.list_offsets(topic, version, -1, epoch=epoch)


class TestFetch:
    @pytest.fixture
    def topic(self, both: Both) -> str:
        topic = both.create(2)
        for size in (3, 2, 1):
            both.produce(topic, bytes(batch([(None, b"v")] * size)))
        return topic

    @pytest.mark.parametrize("version", range(4, 19))
    def test_every_version(self, both: Both, topic: str, version: int) -> None:
        for offset in (-1, 0, 4, 6, 7):
            both.fetch(topic, version, wanted(0, offset))
            both.fetch(topic, version, wanted(0, offset), isolation_level=1)
        both.fetch(topic, version, wanted(0, 4), wanted(1), wanted(7))
        both.fetch(MISSING, version, wanted())
        both.fetch(topic, version, wanted(), max_bytes=1)
        both.fetch(topic, version, wanted(partition_max_bytes=1))

    @pytest.mark.parametrize("version", [9, 12, 18])
    def test_leader_epochs(self, both: Both, topic: str, version: int) -> None:
        for epoch in (0, 1):
            both.fetch(topic, version, wanted(current_leader_epoch=epoch))

    @pytest.mark.parametrize("version", [12, 18])
    def test_epochs_of_the_last_record(self, both: Both, topic: str, version: int) -> None:
        for epoch, offset in ((0, 3), (0, 5), (0, 6), (1, 3)):
            both.fetch(topic, version, wanted(0, offset, last_fetched_epoch=epoch))

    @pytest.mark.parametrize("version", [7, 12, 13, 18])
    def test_sessions(self, both: Both, version: int) -> None:
        topic = both.create(3)
        sides = both.sides
        both.produce(topic, bytes(batch()), index=1)

        def fetch(epoch: int, *partitions: FetchRequest.Topic.Partition, **more: Any) -> Any:
            fields: dict[str, Any] = {"session_id": lambda side: side.session_id} | more
            return both.fetch(topic, version, *partitions, session_epoch=epoch, **fields)

        everything = [wanted(index) for index in range(3)]
        assert fetch(0, *everything).session_id
        fetch(1)
        fetch(2, wanted(1, 1))
        assert fetch(3).responses == []
        for index in (0, 2):
            both.produce(topic, bytes(batch()), index=index)
        fetch(4)
        fetch(5, forgotten=(0,))
        assert fetch(5).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert fetch(8).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        fetch(6, wanted(9))
        fetch(7)
        fetch(8, forgotten=(1, 2, 9))
        assert fetch(9).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert fetch(1, session_id=424242).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        fetch(0, *everything)
        if version >= 12:
            other = 25 - version if version < 18 else 12
            answer = both.fetch(topic, other, session_epoch=1, session_id=lambda side: side.session_id)
            assert answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        fetch(-1, *everything)
        assert fetch(1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert all(side.session_id for side in sides)


class TestDeletedRecords:
    @pytest.fixture
    def topic(self, both: Both) -> str:
        topic = both.create()
        for _ in range(5):
            both.produce(topic, bytes(batch()))
        return topic

    def delete(self, both: Both, topic: str, version: int, offset: int, index: int = 0) -> None:
        partitions = [DeleteRecordsRequest.Topic.Partition(partition_index=index, offset=offset)]
        topics = [DeleteRecordsRequest.Topic(name=topic, partitions=partitions)]
        both.same(ApiKey.DELETE_RECORDS, version, topics=topics, timeout_ms=10_000)

    @pytest.mark.parametrize("version", range(3))
    def test_every_version(self, both: Both, topic: str, version: int) -> None:
        for offset in (-2, 6, version + 1, 0, 1):
            self.delete(both, topic, version, offset)
        self.delete(both, topic, version, 0, index=9)
        self.delete(both, MISSING, version, 0)
        for timestamp in (-1, -2, -3, -4, 0):
            both.list_offsets(topic, 11, timestamp)
        for offset in range(6):
            both.fetch(topic, 12, wanted(0, offset))

    def test_all_of_them(self, both: Both, topic: str) -> None:
        self.delete(both, topic, 2, -1)
        for timestamp in (-1, -2, -3, -4, 0):
            both.list_offsets(topic, 11, timestamp)
        both.fetch(topic, 12, wanted(0, 5))
        both.produce(topic, bytes(batch()))

    def test_every_cleanup_policy(self, both: Both) -> None:
        for policy in ("compact", "", "compact,delete"):
            self.delete(both, both.create(cleanup_policy=policy), 2, 0)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_offsets_for_leader_epochs(both: Both, version: int) -> None:
    topic = both.create(2)
    both.produce(topic, bytes(batch()))
    for name, index, epoch, current in (
        (topic, 0, -1, -1),
        (topic, 0, 0, -1),
        (topic, 0, 1, -1),
        (topic, 0, 0, 0),
        (topic, 0, 0, 1),
        (topic, 1, 0, -1),
        (topic, 9, 0, -1),
        (MISSING, 0, 0, -1),
    ):
        partition = OffsetForLeaderEpochRequest.Topic.Partition(
            partition=index, current_leader_epoch=current, leader_epoch=epoch
        )
        topics = [OffsetForLeaderEpochRequest.Topic(topic=name, partitions=[partition])]
        both.same(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)
