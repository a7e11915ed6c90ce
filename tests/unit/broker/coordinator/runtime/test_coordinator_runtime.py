"""A second coordinator, of counters, on three brokers; the group coordinator's tests cover the rest."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.coordinator.runtime.coordinator_runtime import java_hash, partition_for
from broker.coordinator.runtime.shard_host import RECORDS_A_TURN
from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import EndTxnMarker, read_header
from protocol.records.metadata import PartitionChangeRecord
from storage.log.transaction_marker import append_marker, build_marker
from tests.unit.broker.counters import LIFETIME_MS, CounterCoordinator
from tests.unit.broker.group_node import pending
from tests.unit.broker.replica_cluster import BROKERS, CONTROLLER_ID, TOPIC_ID, ReplicaCluster

PRODUCER = ProducerIdAndEpoch(7, 3)


class Counters:
    """The coordinators of three brokers."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        self.cluster = cluster
        self.on = {broker: CounterCoordinator(cluster[broker]) for broker in BROKERS}
        cluster.place(1, 2, 3, min_insync_replicas=2)

    def result(self, outcome: Any, broker: int = 1) -> Any:
        """Return an outcome, or the code of its KafkaError."""
        try:
            return self.cluster.wait_on(broker, outcome)
        except KafkaError as error:
            return error.code

    def call(self, broker: int, name: str, *args: Any) -> Any:
        """Call a coordinator; return as `result` does."""
        try:
            return self.result(getattr(self.on[broker], name)(*args), broker)
        except KafkaError as error:
            return error.code

    def totals(self, broker: int) -> Any:
        found = self.call(broker, "totals")
        return found if isinstance(found, ErrorCode) else found.totals

    def elect(self, broker: int) -> None:
        self.cluster.elect(broker)
        self.cluster.let_pass(1)

    def cut_off(self) -> None:
        """Cut the first broker off from the others."""
        self.cluster.cut(1, 2)
        self.cluster.cut(1, 3)

    def end_transaction(self, *, committed: bool) -> None:
        """Append a marker, as WriteTxnMarkers does, on the leader."""
        leader = self.cluster[self.cluster.leader]
        marker = build_marker(*PRODUCER, EndTxnMarker(committed, 0), leader.now_ms())
        partition = leader.partition("t")
        append_marker(partition.log, marker, partition.leader_epoch, leader.now_ms())
        self.cluster.append(b"without a key, to wake the followers")
        self.cluster.let_pass(1)


@pytest.fixture
def counters(cluster: ReplicaCluster) -> Counters:
    return Counters(cluster)


class TestLeadership:
    def test_the_leader_serves_and_the_other_brokers_do_not(self, counters: Counters) -> None:
        assert counters.call(1, "add", "a", 2) == 2
        assert counters.call(1, "add", "a", 3) == 5
        assert counters.call(2, "add", "a", 3) == ErrorCode.NOT_COORDINATOR
        assert counters.totals(1) == {"a": 5}

    def test_a_new_leader_loads_what_the_former_one_answered(self, counters: Counters) -> None:
        counters.call(1, "add", "a", 2)
        counters.call(1, "add", "b", 3)
        counters.elect(2)
        assert counters.totals(1) == ErrorCode.NOT_COORDINATOR
        assert counters.totals(2) == {"a": 2, "b": 3}
        counters.call(2, "add", "a", 2)
        counters.elect(1)
        assert counters.totals(1) == {"a": 4, "b": 3}

    def test_a_waiting_request_fails_when_the_shard_is_unloaded(self, counters: Counters) -> None:
        counters.cut_off()
        waiting = counters.on[1].reset("a")
        assert pending(waiting)
        counters.elect(2)
        assert counters.result(waiting) == ErrorCode.NOT_COORDINATOR

    def test_requests_fail_while_the_shard_is_loaded(self, counters: Counters) -> None:
        for _ in range(2 * RECORDS_A_TURN):
            counters.call(1, "add", "a", 1)
        election = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2)
        counters.cluster.wait_on(CONTROLLER_ID, counters.cluster.submit(election))
        counters.cluster.until_applied(2)
        assert counters.totals(2) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        counters.cluster.let_pass(1)
        assert counters.totals(2) == {"a": 2 * RECORDS_A_TURN}

    def test_stop_unloads_all_shards(self, counters: Counters) -> None:
        waiting = counters.on[1].reset("a")
        assert pending(waiting)
        counters.on[1].runtime.stop()
        assert counters.result(waiting) == ErrorCode.NOT_COORDINATOR
        assert counters.totals(1) == ErrorCode.NOT_COORDINATOR


class TestWrites:
    def test_a_refused_operation_writes_nothing(self, counters: Counters) -> None:
        assert counters.call(1, "add", "a", -1) == ErrorCode.INVALID_REQUEST
        assert counters.cluster.stored(1) == []

    def test_a_response_waits_until_its_record_is_committed(self, counters: Counters) -> None:
        counters.cut_off()
        adding, reading = counters.on[1].add("a", 2), counters.on[1].totals()
        counters.cluster.let_pass(1)
        assert pending(adding)
        assert pending(reading)
        counters.cluster.mend()
        assert counters.result(adding) == 2
        assert counters.result(reading).totals == {"a": 2}

    def test_a_record_that_is_never_committed_is_not_answered_and_not_loaded(self, counters: Counters) -> None:
        counters.cut_off()
        adding = counters.on[1].add("a", 2)
        counters.cluster.elect(2)
        counters.cluster.mend()
        assert counters.result(adding) == ErrorCode.NOT_COORDINATOR
        counters.cluster.let_pass(1)
        assert counters.totals(2) == {}

    def test_a_rule_ahead_of_its_record_answers_once_that_is_committed(self, counters: Counters) -> None:
        counters.call(1, "add", "a", 2)
        resetting = counters.on[1].reset("a")
        assert pending(resetting)
        assert counters.result(resetting) == 2
        assert counters.totals(1) == {"a": 0}
        counters.elect(2)
        assert counters.totals(2) == {"a": 0}

    def test_a_failed_append_changes_nothing(self, counters: Counters) -> None:
        counters.call(1, "add", "a", 2)
        counters.cut_off()
        counters.cluster.elect(1, isr=[1])
        assert counters.call(1, "add", "a", 3) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert counters.call(1, "reset", "a") == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert counters.totals(1) == {"a": 2}

    def test_all_shards_are_written_without_a_request(self, counters: Counters) -> None:
        counters.call(1, "add", "a", 2)
        counters.call(1, "add", "b", 2)
        counters.call(1, "clear")
        assert counters.totals(1) == {}
        counters.elect(2)
        assert counters.totals(2) == {}


class TestTimers:
    def test_a_timer_fires_for_its_shard(self, counters: Counters) -> None:
        counters.call(1, "add", "a", 2)
        counters.cluster.let_pass(LIFETIME_MS / 2000)
        counters.call(1, "add", "b", 2)
        counters.cluster.let_pass(LIFETIME_MS / 2000)
        assert counters.totals(1) == {"b": 2}

    def test_a_load_sets_the_timers_again(self, counters: Counters) -> None:
        counters.call(1, "add", "a", 2)
        counters.cluster.let_pass(LIFETIME_MS / 2000)
        counters.elect(2)
        counters.cluster.let_pass(LIFETIME_MS / 1000 - 2)
        assert counters.totals(2) == {"a": 2}
        counters.cluster.let_pass(2)
        assert counters.totals(2) == {}
        counters.elect(1)
        assert counters.totals(1) == {}

    def test_a_timer_whose_record_cannot_be_written_tries_again(self, counters: Counters) -> None:
        counters.call(1, "add", "a", 2)
        counters.cluster.let_pass(LIFETIME_MS / 1000 - 1)
        for broker in (2, 3):
            counters.cluster.stop(broker)
        counters.cluster.elect(1, isr=[1])
        counters.cluster.let_pass(2)
        assert counters.totals(1) == {"a": 2}
        counters.cluster.elect(1, isr=[1, 2])
        counters.cluster.start(2)
        counters.cluster.let_pass(3)
        assert counters.totals(1) == {}


class TestTransactions:
    def test_records_of_a_transaction_are_in_batches_of_its_producer(self, counters: Counters) -> None:
        assert counters.call(1, "add", "a", 2, PRODUCER) == 2
        assert counters.call(1, "add", "a", 3, PRODUCER) == 3, "the same sequence again is no duplicate"
        log = counters.cluster[1].partition("t").log
        for offset in (0, 1):
            [part] = log.read(offset, 1, limit_offset=offset + 1).slices
            header = read_header(part.read(0, part.size_bytes))
            assert (header.base_offset, header.producer_id, header.producer_epoch) == (offset, *PRODUCER)
            assert (header.base_sequence, header.is_transactional, header.is_control) == (0, True, False)
        assert log.producers.first_unstable_offset == 0

    def test_records_outside_transactions_have_no_producer(self, counters: Counters) -> None:
        counters.call(1, "add", "a", 2)
        [part] = counters.cluster[1].partition("t").log.read(0, 1, limit_offset=1).slices
        header = read_header(part.read(0, part.size_bytes))
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
        assert not header.is_transactional

    def test_a_fenced_producer_writes_nothing(self, counters: Counters) -> None:
        counters.call(1, "add", "a", 2, PRODUCER)
        former = PRODUCER._replace(epoch=PRODUCER.epoch - 1)
        assert counters.call(1, "add", "a", 2, former) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert counters.cluster.stored(1) == [b"2"]

    @pytest.mark.parametrize("committed", [True, False])
    def test_a_load_applies_markers_to_the_records_of_their_producer(self, counters: Counters, committed: bool) -> None:
        counters.call(1, "add", "a", 1)
        counters.call(1, "add", "a", 2, PRODUCER)
        counters.call(1, "add", "b", 3, PRODUCER._replace(producer_id=8))
        counters.elect(2)
        assert counters.totals(2) == {"a": 1}
        counters.end_transaction(committed=committed)
        counters.elect(3)
        assert counters.totals(3) == {"a": 3 if committed else 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("console-consumer-1", 35782224),
        # Two UTF-16 units.
        ("\U0001f600", 1772899),
        # -862545276 in Java.
        ("Hello World", 862545276),
        # Integer.MIN_VALUE: its absolute value overflows a Java int.
        ("polygenelubricants", 0),
    ],
)
def test_partition_is_the_absolute_value_of_java_string_hash_modulo_partitions(text: str, expected: int) -> None:
    assert java_hash(text) == expected


@pytest.mark.parametrize(
    ("group", "partition"),
    [("hello", 22), ("console-consumer-1", 24), ("test-group", 12), ("group-42", 20), ("\U0001f600", 49)],
)
def test_group_partition_equals_that_of_apache_kafka(group: str, partition: int) -> None:
    assert partition_for(group, 50) == partition
