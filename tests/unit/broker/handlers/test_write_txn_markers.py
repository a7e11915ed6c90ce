"""WriteTxnMarkers, sent by a transaction coordinator."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any

import pytest

from broker.handlers.write_txn_markers import write_markers
from controller.topic_names import CONSUMER_OFFSETS
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from protocol.record_batch import EndTxnMarker, end_txn_marker, read_header
from storage.log.config import LOG_APPEND_TIME, LogConfig
from tests.disks import FaultyDisk
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.group_node import GroupNode
from tests.unit.broker.node import METADATA_LOG, NODE_ID, Node, batches

Marker = WriteTxnMarkersRequest.Marker
FOLLOWER = 2


def marker(
    topics: dict[str, Iterable[int]],
    *,
    producer_id: int = 7,
    epoch: int = 0,
    committed: bool = True,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> Marker:
    return Marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=committed,
        topics=[Marker.Topic(name=name, partition_indexes=list(indexes)) for name, indexes in topics.items()],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )


def send(node: Node, *markers: Marker, version: int = 2) -> Any:
    """Send the markers; return the handler's result."""
    return node.query(ApiKey.WRITE_TXN_MARKERS, version, markers=list(markers))


def codes(response: Any) -> dict[int, dict[tuple[str, int], int]]:
    """Return the error codes by producer id and partition."""
    return {
        row.producer_id: {
            (topic.name, one.partition_index): one.error_code for topic in row.topics for one in topic.partitions
        }
        for row in response.markers
    }


def written(node: Node, *markers: Marker, version: int = 2) -> Any:
    response = node.wait(send(node, *markers, version=version))
    response.encode(version)
    return codes(response)


def write(node: Node, *, index: int = 0, epoch: int = 0, sequence: int = 0, producer_id: int = 7) -> int:
    """Append a batch of a transaction, without a client; return its offset."""
    return node.append(
        "t",
        index=index,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )


def last_batch(node: Node, index: int = 0) -> bytes:
    log = node.partition("t", index).log
    return batches(log.read(log.log_end_offset - 1, 1 << 20, limit_offset=log.log_end_offset).slices)[-1]


def replicated(node: Node, *, min_isr: int = 1) -> None:
    node.create("t", replicas=(NODE_ID, FOLLOWER), config=LogConfig(min_insync_replicas=min_isr))


def follow(node: Node) -> None:
    partition = node.partition("t")
    node.follower_fetch(partition, FOLLOWER, partition.log.log_end_offset)


@pytest.mark.parametrize(
    ("producer_id", "epoch", "error"),
    [
        (-1, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (-5, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (7, -1, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_marker_without_a_producer_is_refused(node: Node, producer_id: int, epoch: int, error: ErrorCode) -> None:
    node.create("t")
    response = written(node, marker({"t": [0]}, producer_id=producer_id, epoch=epoch))
    assert response == {producer_id: {("t", 0): error}}
    assert node.partition("t").log.log_end_offset == 0


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("committed", [True, False])
def test_marker_is_appended_and_ends_the_transaction(node: Node, version: int, committed: bool) -> None:
    node.create("t")
    write(node)
    log = node.partition("t").log
    assert (log.last_stable_offset, log.high_watermark) == (0, 1)
    answer = send(node, marker({"t": [0]}, committed=committed, coordinator_epoch=5), version=version)
    assert not isinstance(answer, Awaitable)
    assert codes(answer) == {7: {("t", 0): 0}}
    batch = last_batch(node)
    header = read_header(batch)
    assert end_txn_marker(batch) == EndTxnMarker(committed, 5)
    assert (header.base_offset, header.producer_id, header.producer_epoch) == (1, 7, 0)
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    assert header.partition_leader_epoch == node.partition("t").leader_epoch
    assert (header.max_timestamp, header.record_count) == (node.now_ms(), 1)
    assert (log.last_stable_offset, log.high_watermark) == (2, 2)
    [active] = log.segments
    assert [one.producer_id for one in active.transaction_index.entries] == ([] if committed else [7])


def test_marker_gets_its_append_time_with_log_append_time(node: Node) -> None:
    node.create("t", config=LogConfig(timestamp_type=LOG_APPEND_TIME))
    write(node)
    written(node, marker({"t": [0]}))
    assert read_header(last_batch(node)).log_append_time


def test_request_without_markers_has_a_response_without_results(node: Node) -> None:
    assert written(node) == {}


def test_markers_go_to_all_their_partitions_and_fail_separately(node: Node) -> None:
    node.create("t", partitions=3)
    node.create("elsewhere", replicas=(NODE_ID, FOLLOWER), leader=FOLLOWER)
    node.create("remote", replicas=(FOLLOWER,), leader=FOLLOWER)
    for index in (0, 2):
        write(node, index=index)
    write(node, index=1, producer_id=8)
    answer = written(
        node,
        marker({"t": [0, 2, 3], "elsewhere": [0], "missing": [0], "remote": [0]}),
        marker({"t": [1]}, producer_id=8),
    )
    assert answer == {
        7: {
            ("t", 0): 0,
            ("t", 2): 0,
            ("t", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("elsewhere", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ("missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("remote", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        },
        8: {("t", 1): 0},
    }
    for index in range(3):
        assert node.partition("t", index).log.producers.first_unstable_offset is None


def test_results_of_one_producer_are_in_one_row(node: Node) -> None:
    node.create("t", partitions=2)
    answer = node.wait(send(node, marker({"t": [0]}), marker({"t": [1]}), marker({"t": [0]}, epoch=-1)))
    assert len(answer.markers) == 1
    assert codes(answer) == {7: {("t", 0): ErrorCode.INVALID_PRODUCER_EPOCH, ("t", 1): 0}}


def test_marker_without_a_transaction_is_appended(node: Node) -> None:
    node.create("t")
    assert written(node, marker({"t": [0]}, epoch=3)) == {7: {("t", 0): 0}}
    assert node.partition("t").log.log_end_offset == 1
    assert node.partition("t").log.producers.producers[7].epoch == 3


@pytest.mark.parametrize(
    ("epoch", "transaction_version", "code"),
    [
        (2, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, 0, ErrorCode.NONE),
        (3, 1, ErrorCode.NONE),
        (3, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, 2, ErrorCode.NONE),
    ],
)
def test_rule_14_epoch_of_a_marker_is_checked_by_its_transaction_version(
    node: Node, epoch: int, transaction_version: int, code: ErrorCode
) -> None:
    node.create("t")
    write(node, epoch=3)
    assert written(node, marker({"t": [0]}, epoch=epoch, transaction_version=transaction_version)) == {
        7: {("t", 0): code}
    }
    assert node.partition("t").log.log_end_offset == (1 if code else 2)


def test_repeated_marker_of_an_ended_transaction_is_appended_again(node: Node) -> None:
    """Its first response may be lost (KAFKA-19999)."""
    node.create("t")
    write(node)
    for end in (2, 3):
        assert written(node, marker({"t": [0]}, epoch=1, transaction_version=2)) == {7: {("t", 0): 0}}
        assert node.partition("t").log.log_end_offset == end


def test_version_1_has_no_transaction_version(node: Node) -> None:
    node.create("t")
    write(node, epoch=3)
    assert written(node, marker({"t": [0]}, epoch=3, transaction_version=2), version=1) == {7: {("t", 0): 0}}


def test_marker_of_a_former_coordinator_is_fenced(node: Node) -> None:
    node.create("t")
    write(node)
    written(node, marker({"t": [0]}, coordinator_epoch=4))
    write(node, sequence=1)
    fenced = {7: {("t", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED}}
    assert written(node, marker({"t": [0]}, coordinator_epoch=3)) == fenced
    assert node.partition("t").log.log_end_offset == 3
    assert written(node, marker({"t": [0]}, coordinator_epoch=4)) == {7: {("t", 0): 0}}


def test_response_waits_until_the_isr_has_the_marker(node: Node) -> None:
    replicated(node)
    write(node)
    answer = send(node, marker({"t": [0]}))
    assert isinstance(answer, Awaitable)
    log = node.partition("t").log
    assert (log.log_end_offset, log.high_watermark, log.last_stable_offset) == (2, 0, 0)
    node.loop.call_later(1, follow, node)
    begun = node.loop.time()
    assert codes(node.wait(answer)) == {7: {("t", 0): 0}}
    assert node.loop.time() == pytest.approx(begun + 1, abs=0.01)
    assert log.last_stable_offset == 2


def test_response_is_request_timed_out_after_request_timeout_ms(new_node: NewNode) -> None:
    node = new_node(request_timeout_ms="7000")
    node.start()
    replicated(node)
    write(node)
    begun = node.loop.time()
    assert written(node, marker({"t": [0]})) == {7: {("t", 0): ErrorCode.REQUEST_TIMED_OUT}}
    assert node.loop.time() == pytest.approx(begun + 7, abs=0.01)
    assert node.partition("t").log.log_end_offset == 2


def test_lost_leadership_ends_the_wait(node: Node) -> None:
    replicated(node)
    write(node)
    answer = send(node, marker({"t": [0]}))
    node.loop.call_later(1, node.elect, "t", FOLLOWER)
    assert codes(node.wait(answer)) == {7: {("t", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER}}


def test_marker_is_refused_below_min_insync_replicas(node: Node) -> None:
    replicated(node, min_isr=2)
    write(node)
    node.shrink("t", [NODE_ID])
    assert written(node, marker({"t": [0]})) == {7: {("t", 0): ErrorCode.NOT_ENOUGH_REPLICAS}}
    assert node.partition("t").log.log_end_offset == 1


def test_each_partition_is_awaited_once_for_all_its_markers(node: Node) -> None:
    replicated(node)
    node.create("single")
    for producer_id in range(100):
        write(node, producer_id=producer_id)
    answer = send(node, *(marker({"t": [0], "single": [0]}, producer_id=number) for number in range(100)))
    node.loop.call_later(1, follow, node)
    found = codes(node.wait(answer))
    assert found == {number: {("t", 0): 0, ("single", 0): 0} for number in range(100)}


def test_offline_replica_is_unknown(new_node: NewNode) -> None:
    disk = FaultyDisk(spared=METADATA_LOG)
    node = new_node(disk)
    node.start()
    node.create("t")
    write(node)
    disk.arm("pwrite")
    assert written(node, marker({"t": [0]})) == {7: {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}}
    assert written(node, marker({"t": [0]})) == {7: {("t", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}}


def test_large_request_leaves_the_loop_to_others_in_between(node: Node) -> None:
    node.create("t", partitions=4)
    answer = send(node, *(marker({"t": range(4)}, producer_id=number) for number in range(200)))
    assert isinstance(answer, Awaitable)
    assert sum(node.partition("t", index).log.log_end_offset for index in range(4)) < 200
    found = codes(node.wait(answer))
    assert len(found) == 200
    assert not any(code for row in found.values() for code in row.values())
    assert [node.partition("t", index).log.log_end_offset for index in range(4)] == [200] * 4


def test_own_coordinator_writes_markers_without_a_connection(node: Node) -> None:
    node.create("t")
    write(node)
    answer = write_markers(node.broker, WriteTxnMarkersRequest(markers=[marker({"t": [0]}, committed=False)]))
    assert codes(answer) == {7: {("t", 0): 0}}


def test_rule_13_marker_wakes_a_parked_read_committed_fetch(node: Node) -> None:
    node.create("t")
    write(node)
    wanted = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchRequest.Topic(topic="t", partitions=[wanted])]
    parked = node.query(ApiKey.FETCH, 12, max_wait_ms=30_000, min_bytes=1, isolation_level=1, topics=topics)
    assert isinstance(parked, Awaitable)
    node.loop.call_later(1, written_soon, node)
    begun = node.loop.time()
    [found] = node.wait(parked).responses[0].partitions
    assert node.loop.time() == pytest.approx(begun + 1, abs=0.01)
    assert [read_header(batch).is_control for batch in batches(found.records)] == [False, True]
    assert [one.producer_id for one in found.aborted_transactions] == [7]
    assert found.last_stable_offset == 2


def written_soon(node: Node) -> None:
    assert codes(send(node, marker({"t": [0]}, committed=False))) == {7: {("t", 0): 0}}


class TestCommittedOffsets:
    """Markers of `__consumer_offsets` end transactions of the group coordinator."""

    def markers(self, group_node: GroupNode, *others: int, committed: bool = True) -> Any:
        index = group_node.groups.runtime.partition_of("g")
        one = marker({CONSUMER_OFFSETS: [index, *others]}, committed=committed)
        return index, send(group_node.node, one)

    @pytest.mark.parametrize("committed", [True, False])
    def test_pending_offsets_are_committed_or_dropped(self, group_node: GroupNode, committed: bool) -> None:
        group_node.host()
        group_node.wait(group_node.txn_commit(6))
        index, answer = self.markers(group_node, 9, committed=committed)
        assert codes(answer) == {
            7: {(CONSUMER_OFFSETS, index): 0, (CONSUMER_OFFSETS, 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        }
        assert group_node.offset() == (6 if committed else None)
        assert not group_node.is_pending()

    def test_response_waits_until_the_marker_is_committed(self, group_node: GroupNode) -> None:
        group_node.host(replicated=True)
        group_node.txn_commit(6)
        index, answer = self.markers(group_node)
        waiting = group_node.node.loop.create_task(answer)
        group_node.settle()
        assert not waiting.done()
        group_node.replicate()
        assert codes(group_node.wait(waiting)) == {7: {(CONSUMER_OFFSETS, index): 0}}
        assert group_node.offset() == 6

    def test_marker_that_is_not_committed_in_time_is_to_be_repeated(self, group_node: GroupNode) -> None:
        group_node.host(replicated=True)
        index, answer = self.markers(group_node)
        assert codes(group_node.wait(answer)) == {7: {(CONSUMER_OFFSETS, index): ErrorCode.NOT_LEADER_OR_FOLLOWER}}

    def test_marker_is_to_be_repeated_while_the_groups_are_loaded(self, group_node: GroupNode) -> None:
        group_node.host()
        group_node.wait(group_node.txn_commit(6))
        group_node.restart()
        index, answer = self.markers(group_node)
        assert codes(answer) == {7: {(CONSUMER_OFFSETS, index): ErrorCode.NOT_LEADER_OR_FOLLOWER}}
        group_node.settle()
        assert group_node.is_pending()

    def test_errors_of_the_log_are_those_of_other_partitions(self, group_node: GroupNode) -> None:
        group_node.host(replicated=True, min_isr=2)
        group_node.fail_appends()
        index, answer = self.markers(group_node)
        assert codes(answer) == {7: {(CONSUMER_OFFSETS, index): ErrorCode.NOT_ENOUGH_REPLICAS}}


def test_marker_completes_a_parked_fetch_with_all_bytes_of_the_transaction(node: Node) -> None:
    """The marker is small, but it makes the records before it stable."""
    node.create("t")
    for sequence in range(5):
        write(node, sequence=sequence)
    min_bytes = node.partition("t").log.size_bytes
    wanted = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchRequest.Topic(topic="t", partitions=[wanted])]
    parked = node.query(ApiKey.FETCH, 12, max_wait_ms=30_000, min_bytes=min_bytes, isolation_level=1, topics=topics)
    node.loop.call_later(1, written_soon, node)
    begun = node.loop.time()
    [found] = node.wait(parked).responses[0].partitions
    assert node.loop.time() == pytest.approx(begun + 1, abs=0.01)
    assert len(batches(found.records)) == 6
