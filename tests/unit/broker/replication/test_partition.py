"""Rules of one replica that no client can trigger yet; `handlers/` and `scripts/isr` test the others."""

from __future__ import annotations

from typing import Any

import pytest

from broker.replication.partition import ACKS_ALL, LATEST, Isolation, Partition
from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import build_batch, read_header
from storage.log.config import LogConfig
from storage.steps import finish
from tests.typed import present
from tests.unit.broker.node import Node, batches


def append(node: Node, *, transactional: bool = False) -> None:
    """Append one record of producer 9, with its transaction left open."""
    sequence = len(node.stored("t"))
    options: dict[str, Any] = (
        {"producer_id": 9, "producer_epoch": 0, "base_sequence": sequence} if transactional else {}
    )
    batch = build_batch([(None, b"v")], timestamp_ms=0, is_transactional=transactional, **options)
    node.replicas.append(node.partition("t"), memoryview(batch), 1)


@pytest.fixture
def partition(node: Node) -> Partition:
    """Return a partition with a plain record, one of an open transaction, and another plain one."""
    node.create("t")
    append(node)
    append(node, transactional=True)
    append(node)
    return node.partition("t")


@pytest.mark.parametrize(
    ("isolation", "offsets"),
    [(Isolation.READ_UNCOMMITTED, [0, 1, 2]), (Isolation.READ_COMMITTED, [0]), (Isolation.LOG_END, [0, 1, 2])],
)
def test_readers_of_committed_records_stop_at_the_first_open_transaction(
    partition: Partition, isolation: Isolation, offsets: list[int]
) -> None:
    result = partition.read(0, 1 << 20, isolation)
    assert [read_header(batch).base_offset for batch in batches(result.slices)] == offsets
    assert (result.high_watermark, result.last_stable_offset) == (3, 1)
    assert finish(partition.find_offset(LATEST, isolation)).offset == len(offsets)


@pytest.mark.parametrize(("offset", "caught_up"), [(0, False), (1, True), (3, True)])
def test_reader_held_back_only_by_isolation_is_caught_up(partition: Partition, offset: int, caught_up: bool) -> None:
    assert partition.read(offset, 1 << 20, Isolation.READ_COMMITTED).caught_up is caught_up


def test_empty_read_due_to_limit_is_not_caught_up(partition: Partition) -> None:
    result = partition.read(0, 0, Isolation.READ_UNCOMMITTED, min_one=False)
    assert (result.slices, result.caught_up) == ([], False)


def test_deleted_replica_refuses_reads_through_old_reference(node: Node, partition: Partition) -> None:
    node.remove("t")
    with pytest.raises(KafkaError) as refused:
        partition.read(0, 1 << 20, Isolation.READ_UNCOMMITTED)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partition.committed(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_min_insync_replicas_is_at_most_the_number_of_replicas(node: Node) -> None:
    node.create("t", config=LogConfig(min_insync_replicas=2))
    partition = node.partition("t")
    info = node.replicas.append(partition, memoryview(build_batch([(None, b"v")], timestamp_ms=0)), ACKS_ALL)
    assert (info.base_offset, partition.high_watermark, partition.committed(1)) == (0, 1, ErrorCode.NONE)


class TestInSync:
    """Broker 1 leads, 2 and 3 have replicas, and all are in sync."""

    @pytest.fixture
    def partition(self, node: Node) -> Partition:
        node.create("t", replicas=(1, 2, 3))
        return node.partition("t")

    def test_rule_7_proposed_isr_applies_in_addition_to_committed_isr(self, node: Node, partition: Partition) -> None:
        node.shrink("t", [1, 2])
        partition.propose(frozenset({1, 3}))
        assert partition.maximal_isr == {1, 2, 3}
        append(node)
        partition.update_follower_fetch_state(2, 1, 0, 0)
        assert partition.high_watermark == 0
        partition.update_follower_fetch_state(3, 1, 0, 0)
        assert partition.high_watermark == 1
        partition.propose(None)
        assert partition.maximal_isr == {1, 2}

    def test_rule_3_a_proposed_isr_does_not_count_for_min_insync_replicas(
        self, node: Node, partition: Partition
    ) -> None:
        node.configure("t", min_insync_replicas=2)
        node.shrink("t", [1])
        partition.propose(frozenset({1, 2}))
        append(node)
        partition.update_follower_fetch_state(2, 1, 0, 0)
        assert partition.high_watermark == 0
        with pytest.raises(KafkaError) as refused:
            node.replicas.append(partition, memoryview(build_batch([(None, b"v")], timestamp_ms=0)), ACKS_ALL)
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert partition.update_isr([1, 2], partition.partition_epoch + 1)
        assert partition.high_watermark == 1

    def test_committed_append_returns_not_enough_replicas_after_append(self, node: Node, partition: Partition) -> None:
        node.configure("t", min_insync_replicas=2)
        append(node)
        partition.update_follower_fetch_state(2, 1, 0, 0)
        partition.update_follower_fetch_state(3, 1, 0, 0)
        assert partition.committed(1) is ErrorCode.NONE
        node.shrink("t", [1])
        assert partition.committed(1) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def test_append_sets_caught_up_time_of_followers_at_log_end(self, node: Node, partition: Partition) -> None:
        partition.update_follower_fetch_state(2, 0, 0, 0)
        partition.update_follower_fetch_state(3, 0, 0, 0)
        node.pass_time(5)
        append(node)
        assert [partition.followers[broker].caught_up_ms for broker in (2, 3)] == [5000, 5000]
        node.pass_time(5)
        append(node)
        assert partition.followers[2].caught_up_ms == 5000

    def test_follower_in_isr_is_not_awaited(self, node: Node, partition: Partition) -> None:
        node.shrink("t", [1, 3])
        partition.followers[2].awaited = True
        node.shrink("t", [1, 2, 3])
        assert not partition.followers[2].awaited

    def test_only_newer_isr_is_applied(self, partition: Partition) -> None:
        assert partition.update_isr([1, 2], 1)
        assert not partition.update_isr([1], 1)
        assert (partition.isr, partition.partition_epoch) == (frozenset({1, 2}), 1)

    def test_image_without_a_newer_epoch_keeps_the_proposed_isr(self, node: Node, partition: Partition) -> None:
        image = present(node.image.partition("t", 0))
        partition.propose(frozenset({1, 2}))
        partition.lead(image, 0)
        assert partition.proposed_isr == frozenset({1, 2})
        partition.lead(image._replace(partition_epoch=partition.partition_epoch + 1), 0)
        assert partition.proposed_isr is None
