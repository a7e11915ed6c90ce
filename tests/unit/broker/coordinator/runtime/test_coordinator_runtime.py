"""A second coordinator, of counters, on three brokers; the group coordinator's tests cover the rest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.coordinator.runtime.coordinator_runtime import _cached_hash, java_hash, partition_for
from broker.coordinator.runtime.shard_host import RECORDS_A_TURN
from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import EndTxnMarker, end_txn_marker, read_header
from protocol.records.metadata import PartitionChangeRecord
from storage.log.producer_state import COORDINATOR, AppendOrigin
from storage.log.transaction_marker import build_marker
from tests.logs import append_marker
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

    def test_large_records_are_loaded_in_more_turns(self, counters: Counters) -> None:
        name = "a" * 30_000
        for _ in range(40):
            counters.call(1, "add", name, 1)
        election = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2)
        counters.cluster.wait_on(CONTROLLER_ID, counters.cluster.submit(election))
        counters.cluster.until_applied(2)
        assert counters.totals(2) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        counters.cluster.let_pass(1)
        assert counters.totals(2) == {name: 40}

    def test_load_times_are_kept_for_a_minute(self, counters: Counters) -> None:
        counters.call(1, "add", "a", 1)
        counters.elect(2)
        runtime = counters.on[2].runtime
        (duration,) = runtime.load_times()
        assert 0 <= duration <= 1
        counters.cluster.let_pass(61)
        assert runtime.load_times() == []

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

    @pytest.mark.parametrize("committed", [True, False])
    def test_completion_appends_a_marker_and_applies_it_on_every_replica(
        self, counters: Counters, committed: bool
    ) -> None:
        counters.call(1, "add", "a", 1)
        counters.call(1, "add", "a", 2, PRODUCER)
        assert counters.call(1, "complete", PRODUCER, committed) is None
        total = {"a": 3 if committed else 1}
        assert counters.totals(1) == total
        log = counters.cluster[1].partition("t").log
        [part] = log.read(2, 1, limit_offset=3).slices
        batch = part.read(0, part.size_bytes)
        assert (read_header(batch).producer_id, read_header(batch).producer_epoch) == PRODUCER
        assert end_txn_marker(batch) == EndTxnMarker(committed, 0)
        assert log.producers.first_unstable_offset is None
        counters.elect(2)
        assert counters.totals(2) == total

    def test_completion_waits_until_the_marker_is_committed(self, counters: Counters) -> None:
        counters.call(1, "add", "a", 2, PRODUCER)
        completing = counters.on[1].complete(PRODUCER, committed=True)
        reading = counters.on[1].totals()
        assert pending(completing)
        assert pending(reading)
        assert counters.result(completing) is None
        assert counters.result(reading).totals == {"a": 2}

    def test_a_refused_marker_changes_nothing(self, counters: Counters) -> None:
        counters.call(1, "add", "a", 2, PRODUCER)
        fenced = PRODUCER._replace(epoch=PRODUCER.epoch - 1)
        assert counters.call(1, "complete", fenced, True) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert counters.totals(1) == {}
        counters.cut_off()
        counters.cluster.elect(1, isr=[1])
        assert counters.call(1, "complete", PRODUCER, True) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert counters.on[1].runtime.active_shards()[0].totals == {}

    def test_a_marker_of_a_former_transaction_coordinator_is_fenced(self, counters: Counters) -> None:
        counters.call(1, "complete", PRODUCER, True, 5)
        counters.call(1, "add", "a", 2, PRODUCER)
        assert counters.call(1, "complete", PRODUCER, False, 4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert counters.call(1, "complete", PRODUCER, True, 5) is None
        assert counters.totals(1) == {"a": 2}

    def test_completion_fails_without_the_leader(self, counters: Counters) -> None:
        assert counters.call(2, "complete", PRODUCER, True) == ErrorCode.NOT_COORDINATOR
        counters.call(1, "add", "a", 2, PRODUCER)
        counters.cut_off()
        completing = counters.on[1].complete(PRODUCER, committed=True)
        counters.cluster.elect(2)
        counters.cluster.mend()
        assert counters.result(completing) == ErrorCode.NOT_COORDINATOR
        assert counters.totals(2) == {}, "the former leader's marker is truncated"
        assert counters.call(2, "complete", PRODUCER, True) is None
        assert counters.totals(2) == {"a": 2}

    def test_completion_while_loading_is_refused(self, counters: Counters) -> None:
        for _ in range(2 * RECORDS_A_TURN):
            counters.call(1, "add", "a", 1, PRODUCER)
        election = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2)
        counters.cluster.wait_on(CONTROLLER_ID, counters.cluster.submit(election))
        counters.cluster.until_applied(2)
        assert counters.call(2, "complete", PRODUCER, True) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        counters.cluster.let_pass(1)
        assert counters.call(2, "complete", PRODUCER, True) is None
        assert counters.totals(2) == {"a": 1}


class TestVerifiedWrites:
    """Writes in transactions that are verified first."""

    def verify(self, counters: Counters) -> asyncio.Future[AppendOrigin]:
        self.verified: list[int] = []
        self.decision: asyncio.Future[AppendOrigin] = counters.cluster[1].loop.create_future()
        return self.decision

    def start(self, counters: Counters, broker: int = 1) -> asyncio.Task[int]:
        decision = self.verify(counters)

        def verify(index: int) -> asyncio.Future[AppendOrigin]:
            self.verified.append(index)
            return decision

        node = counters.cluster[broker]
        adding = node.loop.create_task(counters.on[broker].add_verified("a", 2, PRODUCER, verify))
        counters.cluster.let_pass(0)
        return adding

    def test_nothing_is_decided_before_the_transaction_is_verified(self, counters: Counters) -> None:
        counters.call(1, "add", "a", 1)
        adding = self.start(counters)
        assert self.verified == [0]
        assert counters.cluster.stored(1) == [b"1"]
        counters.call(1, "add", "a", 3)
        self.decision.set_result(COORDINATOR)
        assert counters.result(adding) == 6
        assert counters.totals(1) == {"a": 4}
        counters.call(1, "complete", PRODUCER, True)
        assert counters.totals(1) == {"a": 6}

    @pytest.mark.parametrize(
        ("error", "reported"),
        [
            (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
            (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
            (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
            (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        ],
    )
    def test_a_failed_verification_writes_nothing(
        self, counters: Counters, error: ErrorCode, reported: ErrorCode
    ) -> None:
        adding = self.start(counters)
        self.decision.set_exception(KafkaError(error))
        assert counters.result(adding) == reported
        assert counters.cluster.stored(1) == []

    def test_a_shard_lost_during_the_verification_writes_nothing(self, counters: Counters) -> None:
        adding = self.start(counters)
        counters.elect(2)
        self.decision.set_result(COORDINATOR)
        assert counters.result(adding) == ErrorCode.NOT_COORDINATOR
        assert counters.cluster.stored(1) == []

    def test_another_leader_does_not_verify(self, counters: Counters) -> None:
        assert counters.result(self.start(counters, 2), 2) == ErrorCode.NOT_COORDINATOR
        assert self.verified == []


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
        (63 * "x" + "yz", 1463934823),
        (32_767 * "ab\u20ac", 343285557),
    ],
)
def test_partition_is_the_absolute_value_of_java_string_hash_modulo_partitions(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_long_keys_do_not_fill_the_cache() -> None:
    before = _cached_hash.cache_info().currsize
    for number in range(10):
        partition_for(str(number) * 257, 50)
    assert _cached_hash.cache_info().currsize == before


@pytest.mark.parametrize(
    ("group", "partition"),
    [("hello", 22), ("console-consumer-1", 24), ("test-group", 12), ("group-42", 20), ("\U0001f600", 49)],
)
def test_group_partition_equals_that_of_apache_kafka(group: str, partition: int) -> None:
    assert partition_for(group, 50) == partition
