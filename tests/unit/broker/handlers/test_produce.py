"""Produce, sent by a client."""

from __future__ import annotations

import gc
import os
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker.dispatch import Dispatcher
from broker.network.connection import Connection, Disconnect
from broker.network.connection_protocol import DeferredResponse
from broker.replication.partition import Partition
from protocol.api import ApiKey
from protocol.checksum import crc32c
from protocol.compression import Compression
from protocol.errors import ErrorCode
from protocol.headers import RequestHeader, encode_request_header
from protocol.messages.produce import ProduceRequest
from protocol.record import Record
from protocol.record_batch import ControlType, build_batch, control_record_key
from protocol.records.metadata import RemoveTopicRecord
from storage.log.config import LOG_APPEND_TIME, LogConfig
from tests.disks import FaultyDisk
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.node import LISTENER, METADATA_LOG, Node, topic_records

if TYPE_CHECKING:
    from storage.log.log import LogAppendInfo

VALUE = [(None, b"value")]
ALL_VERSIONS = range(3, 14)


@pytest.fixture(autouse=True, params=[False, True], ids=["straight", "decoded"])
def way(node: Node, request: pytest.FixtureRequest) -> None:
    """Run each test on the fast path and on the decoding path: results must be equal."""
    node.decodes_all = request.param


def send(
    node: Node,
    batch: bytes | bytearray | None,
    *,
    topic: str = "t",
    version: int = 12,
    acks: int = 1,
    index: int = 0,
    timeout_ms: int = 1000,
    client_id: str | None = None,
    topic_id: bytes = bytes(16),
) -> Any:
    """Produce one batch; return the handler's result."""
    return node.query(
        ApiKey.PRODUCE,
        version,
        client_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[topic_data(topic, (index, batch), topic_id=topic_id)],
    )


def topic_data(
    name: str, *batches: tuple[int, bytes | bytearray | None], topic_id: bytes = bytes(16)
) -> ProduceRequest.Topic:
    partitions = [ProduceRequest.Topic.Partition(index=index, records=batch) for index, batch in batches]
    return ProduceRequest.Topic(name=name, topic_id=topic_id, partition_data=partitions)


def produced(node: Node, batch: bytes | bytearray | None, **options: Any) -> Any:
    """Produce one batch; return its partition's part of the response."""
    [topic] = node.wait(send(node, batch, **options)).responses
    [partition] = topic.partition_responses
    return partition


def build(records: Any = VALUE, **options: Any) -> bytearray:
    return build_batch(records, **{"timestamp_ms": 1_700_000_000_000} | options)


def test_batch_is_appended_and_acknowledged_at_once(node: Node) -> None:
    node.create("t")
    assert produced(node, build()).base_offset == 0
    response = send(node, build([(b"k", b"1"), (b"k", b"2")]))
    assert not isinstance(response, Awaitable)
    [partition] = response.responses[0].partition_responses
    assert (partition.error_code, partition.base_offset, partition.log_append_time_ms) == (0, 1, -1)
    assert partition.log_start_offset == 0
    assert [record.value for record in node.stored("t")] == [b"value", b"1", b"2"]


@pytest.mark.parametrize("version", ALL_VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_every_version_appends_and_its_response_encodes(node: Node, version: int, acks: int) -> None:
    topic_id = node.create("t")
    response = send(node, build(), version=version, acks=acks, topic_id=topic_id)
    assert response.responses[0].partition_responses[0].error_code == 0
    response.encode(version)
    assert len(node.stored("t")) == 1


def test_partitions_of_a_request_succeed_and_fail_separately(node: Node) -> None:
    node.create("t", partitions=2)
    response = node.answer(
        ApiKey.PRODUCE,
        9,
        acks=1,
        timeout_ms=1000,
        topic_data=[
            topic_data("t", (1, build()), (2, build()), (0, build()[:-1])),
            topic_data("missing", (0, build())),
        ],
    )
    assert [(topic.name, [part.error_code for part in topic.partition_responses]) for topic in response.responses] == [
        ("t", [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_RECORD]),
        ("missing", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
    ]
    assert [part.base_offset for part in response.responses[0].partition_responses] == [0, -1, -1]


@pytest.mark.parametrize("acks", [1, -1])
def test_unexpected_exception_in_one_partition_does_not_fail_the_others(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, acks: int
) -> None:
    topic_id = node.create("t", partitions=3)

    append = Partition.append_as_leader

    def fail_for_partition_1(partition: Partition, *batch: Any) -> tuple[LogAppendInfo, bool]:
        if partition.index == 1:
            raise ZeroDivisionError
        return append(partition, *batch)

    monkeypatch.setattr(Partition, "append_as_leader", fail_for_partition_1)
    topic = topic_data("t", *((index, build()) for index in range(3)), topic_id=topic_id)
    response = node.answer(ApiKey.PRODUCE, 13, acks=acks, timeout_ms=1000, topic_data=[topic])
    answers = response.responses[0].partition_responses
    assert [one.error_code for one in answers] == [0, ErrorCode.UNKNOWN_SERVER_ERROR, 0]
    assert [len(node.stored("t", index)) for index in range(3)] == [1, 0, 1]
    [logged] = [record for record in caplog.records if record.exc_info]
    assert logged.exc_info is not None
    assert logged.exc_info[0] is ZeroDivisionError


def test_refused_batch_in_one_partition_does_not_fail_the_others(node: Node) -> None:
    topic_id = node.create("t", partitions=3)
    producer = {"producer_id": 7, "producer_epoch": 0}
    for index in range(3):
        assert produced(node, build(**producer, base_sequence=0), index=index).error_code == 0
    batches = [(index, build(**producer, base_sequence=sequence)) for index, sequence in enumerate((1, 9, 1))]
    topic = topic_data("t", *batches, topic_id=topic_id)
    response = node.answer(ApiKey.PRODUCE, 13, acks=-1, timeout_ms=1000, topic_data=[topic])
    answers = response.responses[0].partition_responses
    assert response.responses[0].topic_id == topic_id
    assert [(answer.index, answer.error_code, answer.base_offset) for answer in answers] == [
        (0, ErrorCode.NONE, 1),
        (1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        (2, ErrorCode.NONE, 1),
    ]
    assert [len(node.stored("t", index)) for index in range(3)] == [2, 1, 2]


def test_topic_is_resolved_by_its_id(node: Node) -> None:
    topic_id = node.create("t")
    assert produced(node, build(), version=13, topic="", topic_id=topic_id).error_code == 0
    assert len(node.stored("t")) == 1


def test_unused_topic_id_is_refused(node: Node) -> None:
    node.create("t")
    refused = produced(node, build(), version=13, topic="", topic_id=b"x" * 16)
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_records_for_a_new_topic_do_not_reach_a_replica_of_its_deleted_namesake(new_node: NewNode, node: Node) -> None:
    decodes_all, node = node.decodes_all, new_node()
    node.decodes_all = decodes_all
    old, new = node.create("t", partitions=2), b"n" * 16
    steps = node.watch_steps(lambda: produced(node, build(), version=13, topic="", topic_id=new, index=1).error_code)
    node.start()
    deleted = node.partition("t", 1)
    node.commit(RemoveTopicRecord(topic_id=old), *topic_records("t", new, 2))
    assert (steps[0], steps[-1]) == (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NONE)  # first partition 0 is removed
    assert deleted.log.log_end_offset == 0


@pytest.mark.parametrize("acks", [2, -2])
def test_invalid_acks_are_refused_and_nothing_is_appended(node: Node, acks: int) -> None:
    node.create("t")
    assert produced(node, build(), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert node.stored("t") == []


def test_acks_0_has_no_response(node: Node) -> None:
    node.create("t")
    assert send(node, build(), acks=0) is None
    assert len(node.stored("t")) == 1


def test_produce_error_with_acks_0_closes_the_connection(node: Node) -> None:
    with pytest.raises(Disconnect, match="UNKNOWN_TOPIC_OR_PARTITION"):
        send(node, build(), acks=0)


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (build() + build(), ErrorCode.INVALID_RECORD),
        (build([(control_record_key(ControlType.COMMIT), bytes(6))], is_control=True), ErrorCode.INVALID_RECORD),
        (build()[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
        (
            build(is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (build(timestamp_ms=1_700_000_000_000 + 3_600_001), ErrorCode.INVALID_TIMESTAMP),
        (build([(None, bytes(1 << 20))]), ErrorCode.MESSAGE_TOO_LARGE),
    ],
    ids=["null", "empty", "two batches", "control", "corrupt", "transactional", "future", "too large"],
)
def test_rule_30_invalid_batch_is_refused_and_not_appended(node: Node, batch: bytes, code: ErrorCode) -> None:
    node.create("t")
    refused = produced(node, batch)
    assert (refused.error_code, refused.base_offset) == (code, -1)
    assert refused.error_message
    assert node.stored("t") == []


@pytest.mark.parametrize("magic", [0, 1])
def test_rule_30_a_batch_of_an_older_magic_is_refused(node: Node, magic: int) -> None:
    node.create("t")
    old = build()
    old[16] = magic
    assert produced(node, old).error_code == ErrorCode.INVALID_RECORD
    assert node.stored("t") == []


@pytest.mark.parametrize(("version", "code"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)])
def test_rule_30_zstd_needs_version_7(node: Node, version: int, code: ErrorCode) -> None:
    node.create("t")
    assert produced(node, build(compression=Compression.ZSTD), version=version).error_code == code
    assert len(node.stored("t")) == (code is ErrorCode.NONE)


@pytest.mark.parametrize("codec", list(Compression))
def test_stored_batch_differs_only_in_base_offset_and_leader_epoch(node: Node, codec: Compression) -> None:
    node.create("t")
    batch = build(compression=codec)
    produced(node, build())
    produced(node, batch)
    log = node.partition("t").log
    [piece] = log.read(1, 1 << 20, limit_offset=2).slices
    stored = piece.read(0, piece.size_bytes)
    assert stored[:8] == (1).to_bytes(8, "big")
    assert stored[8:12] + stored[16:] == batch[8:12] + batch[16:]


def test_rule_21_log_append_time_is_set_and_returned(node: Node) -> None:
    node.create("t", config=LogConfig(timestamp_type=LOG_APPEND_TIME))
    answer = produced(node, build(timestamp_ms=5))
    assert answer.log_append_time_ms == node.now_ms()
    assert node.stored("t") == [Record(0, node.now_ms(), None, b"value")]


def idempotent(sequence: int, *, epoch: int = 0, count: int = 1) -> bytearray:
    return build(VALUE * count, producer_id=9, producer_epoch=epoch, base_sequence=sequence)


def test_rule_9_duplicate_batch_gets_the_original_offset_and_is_not_appended(node: Node) -> None:
    node.create("t")
    for sequence in range(5):
        produced(node, idempotent(sequence))
    for sequence in range(5):
        repeated = produced(node, idempotent(sequence), acks=-1)
        assert (repeated.error_code, repeated.base_offset) == (0, sequence)
    assert len(node.stored("t")) == 5


def test_rule_9_duplicates_are_detected_only_among_the_last_five_batches(node: Node) -> None:
    node.create("t")
    for sequence in range(6):
        produced(node, idempotent(sequence))
    assert produced(node, idempotent(0)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produced(node, idempotent(1)).base_offset == 1


def test_rule_9_a_gap_in_the_sequence_is_refused(node: Node) -> None:
    node.create("t")
    produced(node, idempotent(0))
    assert produced(node, idempotent(2)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_of_the_producer_is_fenced(node: Node) -> None:
    node.create("t")
    produced(node, idempotent(0, epoch=1))
    assert produced(node, idempotent(1, epoch=0)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_compacted_topic_refuses_records_without_a_key_and_lists_them(node: Node) -> None:
    node.create("t", config=LogConfig(cleanup_policy=frozenset({"compact"})))
    refused = produced(node, build([(b"k", b"1"), (None, b"2"), (None, b"3")]))
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in refused.record_errors] == [1, 2]
    assert node.stored("t") == []


def test_batch_is_recompressed_with_the_codec_of_the_topic(node: Node) -> None:
    node.create("t", config=LogConfig(compression_type="gzip"))
    assert produced(node, build([(None, b"a" * 1000)], compression=Compression.LZ4)).error_code == 0
    assert node.partition("t").log.size_bytes < 200
    assert node.stored("t")[0].value == b"a" * 1000


@pytest.mark.parametrize(("validated", "code"), [("true", ErrorCode.INVALID_RECORD), ("false", ErrorCode.NONE)])
def test_malformed_records_are_refused_only_if_record_validation_is_on(
    new_node: NewNode, validated: str, code: ErrorCode
) -> None:
    node = new_node(barnabas_validate_records=validated)
    node.start()
    node.create("t")
    batch = build()
    batch[61] = 0x7E
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    assert produced(node, batch).error_code == code


def test_internal_topics_accept_only_the_admin_client_id(node: Node) -> None:
    node.create("__consumer_offsets")
    refused = produced(node, build(), topic="__consumer_offsets", client_id="someone")
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    allowed = produced(node, build(), topic="__consumer_offsets", client_id="__admin_client")
    assert allowed.error_code == 0


class TestNotLeader:
    @pytest.fixture
    def node(self, node: Node) -> Node:
        node.register(2, "other.example", 9094)
        node.create("t", replicas=(2,), leader=2)
        return node

    def test_response_has_current_leader_epoch_and_endpoint(self, node: Node) -> None:
        response = send(node, build(), version=10)
        [refused] = response.responses[0].partition_responses
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (2, 0)
        assert [(end.node_id, end.host, end.port) for end in response.node_endpoints] == [(2, "other.example", 9094)]
        response.encode(10)

    def test_older_versions_have_no_leader_endpoint(self, node: Node) -> None:
        response = send(node, build(), version=9)
        assert response.node_endpoints == []
        response.encode(9)

    def test_leader_endpoint_is_listed_once(self, node: Node) -> None:
        node.create("u", replicas=(2,), leader=2)
        response = node.answer(
            ApiKey.PRODUCE,
            12,
            acks=1,
            timeout_ms=1000,
            topic_data=[topic_data(name, (0, build())) for name in ("t", "u")],
        )
        assert len(response.node_endpoints) == 1

    def test_follower_refuses_produce(self, node: Node) -> None:
        node.create("f", replicas=(1, 2), leader=2)
        assert produced(node, build(), topic="f").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


class TestAcksAll:
    """Broker 1 is the leader, broker 2 a follower; both are in the ISR."""

    @pytest.fixture
    def node(self, node: Node) -> Node:
        node.register(2, "other.example", 9094)
        node.create("t", replicas=(1, 2), config=LogConfig(min_insync_replicas=2))
        return node

    def finish(self, node: Node, waiting: Any) -> Any:
        response = node.wait(waiting)
        return response.responses[0].partition_responses[0]

    def test_response_waits_until_the_whole_isr_has_the_batch(self, node: Node) -> None:
        waiting = send(node, build(), acks=-1)
        assert isinstance(waiting, Awaitable)
        node.loop.call_later(0.5, node.follower_fetch, node.partition("t"), 2, 1, 0)
        answer = self.finish(node, waiting)
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert node.loop.time() == pytest.approx(0.5, abs=0.01)

    def test_acks_1_does_not_wait(self, node: Node) -> None:
        assert produced(node, build(), acks=1).error_code == 0

    def test_record_stays_after_a_time_out(self, node: Node) -> None:
        answer = self.finish(node, send(node, build(), acks=-1, timeout_ms=700))
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert node.loop.time() == pytest.approx(0.7, abs=0.01)
        assert len(node.stored("t")) == 1

    def test_isr_below_min_isr_is_refused_before_the_append(self, node: Node) -> None:
        """Rule 5."""
        node.shrink("t", [1])
        assert produced(node, build(), acks=-1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert node.stored("t") == []
        assert produced(node, build(), acks=1).error_code == 0

    def test_isr_that_shrinks_before_commit_ends_in_a_time_out(self, node: Node) -> None:
        """Rule 5: the high watermark stays below the record while the ISR is too small; the record stays."""
        waiting = send(node, build(), acks=-1)
        node.loop.call_later(0.1, node.shrink, "t", [1])
        assert self.finish(node, waiting).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert node.partition("t").high_watermark == 0
        assert len(node.stored("t")) == 1

    def test_isr_that_shrinks_after_commit_returns_not_enough_replicas_after_append(
        self, new_node: NewNode, node: Node
    ) -> None:
        """Rule 5: the record stays."""
        decodes_all, node = node.decodes_all, new_node()
        node.decodes_all = decodes_all
        node.create("t", replicas=(1, 2), config=LogConfig(min_insync_replicas=2))
        acknowledging: list[None] = []

        def acknowledge(*_: object) -> None:
            """Commit the record in the turn in which the ISR shrinks."""
            if acknowledging:
                node.follower_fetch(node.partition("t"), 2, 1, 0)

        node.broker.raft.subscribe(acknowledge)
        node.start()
        node.elect("t", 1, isr=[1, 2])
        waiting = send(node, build(), acks=-1)
        acknowledging.append(None)
        node.shrink("t", [1])
        assert self.finish(node, waiting).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert len(node.stored("t")) == 1

    def test_loss_of_leadership_ends_the_wait(self, node: Node) -> None:
        waiting = send(node, build(), acks=-1)
        node.loop.call_later(0.1, node.elect, "t", 2)
        answer = self.finish(node, waiting)
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert answer.current_leader.leader_id == 2
        assert node.loop.time() == pytest.approx(0.1, abs=0.01)

    def test_topic_deletion_ends_the_wait(self, node: Node) -> None:
        waiting = send(node, build(), acks=-1)
        node.loop.call_later(0.1, node.remove, "t")
        assert self.finish(node, waiting).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert node.loop.time() == pytest.approx(0.1, abs=0.01)

    def test_completed_partitions_are_answered_with_the_deferred_ones(self, node: Node) -> None:
        node.create("alone")
        waiting = node.query(
            ApiKey.PRODUCE,
            12,
            acks=-1,
            timeout_ms=1000,
            topic_data=[topic_data(name, (0, build())) for name in ("alone", "t", "none")],
        )
        node.loop.call_later(0.5, node.follower_fetch, node.partition("t"), 2, 1, 0)
        response = node.wait(waiting)
        assert [topic.partition_responses[0].error_code for topic in response.responses] == [0, 0, 3]

    @pytest.mark.parametrize("topics", [("t",), ("t", "none")], ids=["plain", "of another shape"])
    def test_deferred_request_does_not_hold_its_frame(self, node: Node, topics: tuple[str, ...]) -> None:
        """A frame may be 1 MB and does not count as request memory while the response is pending."""
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[topic_data(name, (0, build())) for name in topics]
        )
        header = encode_request_header(RequestHeader(ApiKey.PRODUCE, 12, 7, None))
        frame = bytearray(header + request.encode(12))
        with memoryview(frame) as received:
            waiting = Dispatcher(node.broker, "broker")(received, Connection(1, LISTENER, "127.0.0.1"))
        assert isinstance(waiting, DeferredResponse)
        frame.clear()  # raises BufferError while a memoryview of it exists


def test_failed_append_keeps_no_file_of_a_deleted_topic_open(new_node: NewNode, node: Node) -> None:
    disk = FaultyDisk(spared=METADATA_LOG)
    full = new_node(disk)
    full.decodes_all = node.decodes_all
    full.start()
    full.create("t")
    assert produced(full, build()).error_code == ErrorCode.NONE
    disk.full = True
    gc.collect()
    gc.disable()  # files must be closed without the garbage collector
    try:
        assert produced(full, build()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        full.remove("t")
        assert not open_files("t-0")
    finally:
        gc.enable()
        disk.full = False


def open_files(name: str) -> list[str]:
    """Return the open files of this process with `name` in their path."""
    links = (Path("/proc/self/fd", number) for number in os.listdir("/proc/self/fd"))
    return [target for link in links if link.is_symlink() and name in (target := os.readlink(link))]
