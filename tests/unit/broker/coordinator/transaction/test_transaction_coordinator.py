from __future__ import annotations

from itertools import pairwise

import pytest

from broker.coordinator.runtime import coordinator_runtime
from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.coordinator.transaction.context import InitProducerId, ProducerResult
from broker.coordinator.transaction.transaction_partitions import MAX_PARTITIONS, TransactionPartitions
from controller.topic_names import TRANSACTION_STATE
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from storage.log.config import LogConfig
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.group_node import pending
from tests.unit.broker.node import NODE_ID
from tests.unit.broker.transaction_node import FOLLOWER_ID, TransactionNode


def _forced_abort(producer: ProducerIdAndEpoch, topic: str, epoch: int) -> WriteTxnMarkersRequest.Marker:
    """Return the marker with which an admin aborts the transaction in one partition (KIP-664)."""
    marker = WriteTxnMarkersRequest.Marker
    return marker(
        producer_id=producer.producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[marker.Topic(name=topic, partition_indexes=[0])],
        coordinator_epoch=0,
    )


@pytest.fixture
def coordinated(new_node: NewNode) -> TransactionNode:
    """Return a node that coordinates nothing yet."""
    node = new_node()
    node.start()
    return TransactionNode(node)


class TestTransactions:
    def test_commit_writes_the_decision_the_markers_and_the_completion(self, coordinated: TransactionNode) -> None:
        coordinated.host()
        producer = coordinated.producer()
        assert coordinated.node.wait(coordinated.add(producer, ("x", 0), ("x", 1))) == ErrorCode.NONE
        ended = coordinated.node.wait(coordinated.end(producer))
        assert ended == ProducerResult(ErrorCode.NONE, producer.producer_id, 1)
        coordinated.settle()
        assert coordinated.records() == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
        assert coordinated.markers("x", 0) == coordinated.markers("x", 1) == ["commit 1 by 0"]
        assert coordinated.state() == "CompleteCommit"
        assert len(coordinated.transactions.markers) == 0

    def test_rule_16_nothing_is_answered_or_marked_before_it_is_committed(self, coordinated: TransactionNode) -> None:
        coordinated.host(replicated=True)
        began = coordinated.init()
        coordinated.settle()
        assert pending(began)
        assert coordinated.transactions.describe("t") is None
        assert list(coordinated.transactions.states()) == []
        coordinated.replicate()
        producer = coordinated.producer_of(began)
        added = coordinated.add(producer)
        coordinated.settle()
        assert pending(added)
        assert coordinated.state() == "Empty"
        coordinated.replicate()
        ended = coordinated.end(producer)
        coordinated.settle()
        assert pending(ended)
        assert (coordinated.state(), coordinated.markers()) == ("Ongoing", [])
        coordinated.replicate()
        assert coordinated.node.wait(ended).error == ErrorCode.NONE
        coordinated.settle()
        assert (coordinated.state(), coordinated.markers()) == ("PrepareCommit", ["commit 1 by 0"])
        coordinated.replicate()
        assert coordinated.state() == "CompleteCommit"

    def test_failed_append_is_an_error_and_changes_nothing(self, coordinated: TransactionNode) -> None:
        coordinated.host(replicated=True, min_isr=2)
        began = coordinated.init()
        coordinated.settle()
        coordinated.replicate()
        producer = coordinated.producer_of(began)
        coordinated.node.elect(TRANSACTION_STATE, NODE_ID, isr=[NODE_ID], index=coordinated.index())
        assert coordinated.add(producer) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert coordinated.state() == "Empty"

    @pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
    def test_timeout_out_of_range_is_refused(self, coordinated: TransactionNode, timeout_ms: int) -> None:
        coordinated.host()
        refused = coordinated.transactions.init_producer_id(InitProducerId("t", timeout_ms))
        assert refused == ProducerResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT)

    def test_rule_14_late_end_of_a_transaction_does_not_end_the_next_one(self, coordinated: TransactionNode) -> None:
        former = coordinated.host().producer()
        coordinated.add(former)
        ended = coordinated.node.wait(coordinated.end(former))
        coordinated.settle()
        producer = ProducerIdAndEpoch(ended.producer_id, ended.producer_epoch)
        coordinated.add(producer)
        assert coordinated.end(former).error == ErrorCode.PRODUCER_FENCED
        assert coordinated.end(former, version=0).error == ErrorCode.PRODUCER_FENCED
        assert (coordinated.state(), coordinated.markers()) == ("Ongoing", ["commit 1 by 0"])

    def test_rule_15_new_producer_aborts_the_open_transaction_and_fences_the_one_before(
        self, coordinated: TransactionNode
    ) -> None:
        zombie = coordinated.host().producer()
        coordinated.add(zombie)
        assert coordinated.node.wait(coordinated.init()).error == ErrorCode.CONCURRENT_TRANSACTIONS
        coordinated.settle()
        assert coordinated.markers() == ["abort 1 by 0"]
        producer = coordinated.producer()
        assert producer == ProducerIdAndEpoch(zombie.producer_id, 2)
        coordinated.add(producer)
        assert coordinated.add(zombie, ("x", 1)) == ErrorCode.PRODUCER_FENCED
        assert coordinated.end(zombie).error == ErrorCode.PRODUCER_FENCED
        verified = coordinated.transactions.verify_partitions("t", zombie, [("x", 0)])
        assert verified == {("x", 0): ErrorCode.PRODUCER_FENCED}

    def test_transaction_with_too_many_partitions_can_only_be_aborted(self, coordinated: TransactionNode) -> None:
        producer = coordinated.host().producer()
        most = [("gone", index) for index in range(MAX_PARTITIONS)]
        assert coordinated.node.wait(coordinated.add(producer, *most)) == ErrorCode.NONE
        assert coordinated.add(producer, ("gone", 7)) == ErrorCode.NONE
        assert coordinated.add(producer, ("x", 0)) == ErrorCode.TRANSACTION_ABORTABLE
        assert coordinated.records() == ["Empty", "Ongoing"]
        assert coordinated.node.wait(coordinated.end(producer, commit=False)).error == ErrorCode.NONE

    def test_too_many_partitions_that_wait_for_the_transaction_before_are_refused_when_it_is_complete(
        self, coordinated: TransactionNode
    ) -> None:
        producer = coordinated.host().producer()
        coordinated.add(producer)
        coordinated.end(producer, version=0)
        partitions = TransactionPartitions.of(("x", index) for index in range(MAX_PARTITIONS + 1))
        waiting = coordinated.transactions.add_partitions("t", producer, partitions, 0)
        assert pending(waiting)
        coordinated.settle()
        assert coordinated.node.wait(waiting) == ErrorCode.TRANSACTION_ABORTABLE
        assert coordinated.state() == "CompleteCommit"

    def test_empty_transactional_id_is_refused(self, coordinated: TransactionNode) -> None:
        producer = coordinated.host().producer()
        assert coordinated.init("").error == ErrorCode.INVALID_REQUEST
        assert coordinated.add(producer, name="") == ErrorCode.INVALID_REQUEST
        assert coordinated.end(producer, name="").error == ErrorCode.INVALID_REQUEST
        verified = coordinated.transactions.verify_partitions("", producer, [("x", 0)])
        assert verified == {("x", 0): ErrorCode.INVALID_REQUEST}

    def test_records_and_markers_follow_the_finalized_level(self, coordinated: TransactionNode) -> None:
        coordinated.host(level=0)
        producer = coordinated.producer()
        coordinated.add(producer)
        coordinated.end(producer, version=0)
        coordinated.settle()
        values = [record.value for record in coordinated.node.stored(TRANSACTION_STATE, coordinated.index())]
        assert {value[:2] for value in values if value is not None} == {b"\0\0"}
        assert coordinated.markers() == ["commit 0 by 0"]

    def test_long_id_is_hashed_once_for_all_its_markers(
        self, coordinated: TransactionNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = "t" * 300
        producer = coordinated.host().producer(name)
        coordinated.add(producer, ("x", 0), ("x", 1), name=name)
        coordinated.end(producer, name=name)
        hashed, java_hash = [], coordinator_runtime.java_hash

        def record(text: str) -> int:
            hashed.append(text)
            return java_hash(text)

        monkeypatch.setattr(coordinator_runtime, "java_hash", record)
        coordinated.settle()
        assert hashed == [name]
        assert coordinated.state(name) == "CompleteCommit"

    def test_marker_of_a_deleted_topic_is_not_waited_for(self, coordinated: TransactionNode) -> None:
        producer = coordinated.host().producer()
        coordinated.add(producer)
        coordinated.node.remove("x")
        coordinated.end(producer)
        coordinated.settle()
        assert coordinated.state() == "CompleteCommit"

    @pytest.mark.parametrize("forced_epoch", [1, 5])
    def test_forced_abort_in_one_partition_does_not_keep_the_others_unstable(
        self, coordinated: TransactionNode, forced_epoch: int
    ) -> None:
        """The other one gets its marker although its leader could not write the first."""
        node = coordinated.host().node
        node.create("y", replicas=(NODE_ID, FOLLOWER_ID), config=LogConfig(min_insync_replicas=2))
        node.shrink("y", [NODE_ID])
        producer = coordinated.producer()
        coordinated.add(producer, ("x", 0), ("y", 0))
        fields = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "base_sequence": 0}
        for topic in ("x", "y"):
            node.append(topic, is_transactional=True, **fields)
        node.wait(node.query(ApiKey.WRITE_TXN_MARKERS, 1, markers=[_forced_abort(producer, "x", forced_epoch)]))
        coordinated.end(producer)
        coordinated.settle()
        assert (coordinated.state(), coordinated.markers("y")) == ("PrepareCommit", [])
        node.configure("y", min_insync_replicas=1)
        node.pass_time(1)
        coordinated.settle()
        assert (coordinated.state(), coordinated.markers("y")) == ("CompleteCommit", ["commit 1 by 0"])
        logs = [node.partition(topic).log for topic in ("x", "y")]
        assert [log.last_stable_offset for log in logs] == [log.log_end_offset for log in logs]

    def test_producer_ids_are_allocated_when_the_block_is_used_up(self, coordinated: TransactionNode) -> None:
        coordinated.host()
        ids = [coordinated.producer(str(number)).producer_id for number in range(1_002)]
        assert len(set(ids)) == 1_002

    def test_producer_repeats_its_request_if_the_controller_allocates_no_ids(
        self, coordinated: TransactionNode
    ) -> None:
        """Any other error would be fatal for it."""
        lifecycle = coordinated.host().node.broker.lifecycle
        lifecycle.broker_epoch, epoch = lifecycle.broker_epoch + 1, lifecycle.broker_epoch
        assert coordinated.node.wait(coordinated.init()).error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        lifecycle.broker_epoch = epoch
        assert coordinated.producer().epoch == 0


class TestLeadership:
    def test_ids_of_partitions_led_by_other_brokers_are_not_coordinated(self, coordinated: TransactionNode) -> None:
        producer = coordinated.host().producer()
        coordinated.node.elect(TRANSACTION_STATE, FOLLOWER_ID, index=coordinated.index())
        assert coordinated.init().error == ErrorCode.NOT_COORDINATOR
        assert coordinated.add(producer) == ErrorCode.NOT_COORDINATOR
        assert coordinated.end(producer).error == ErrorCode.NOT_COORDINATOR
        with pytest.raises(KafkaError):
            coordinated.transactions.describe("t")

    def test_waiting_requests_get_not_coordinator_when_the_partition_is_lost(
        self, coordinated: TransactionNode
    ) -> None:
        coordinated.host(replicated=True)
        began = coordinated.init()
        coordinated.node.elect(TRANSACTION_STATE, FOLLOWER_ID, index=coordinated.index())
        assert coordinated.node.wait(began).error == ErrorCode.NOT_COORDINATOR

    def test_rule_17_requests_get_load_in_progress_until_the_partition_is_loaded(
        self, coordinated: TransactionNode
    ) -> None:
        producer = coordinated.host().producer()
        index = coordinated.index()
        coordinated.transactions.runtime.leadership_changed(index, None)
        coordinated.transactions.runtime.leadership_changed(index, 1)
        assert coordinated.add(producer) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        with pytest.raises(KafkaError):
            list(coordinated.transactions.states())
        coordinated.settle()
        assert coordinated.node.wait(coordinated.add(producer)) == ErrorCode.NONE

    def test_rule_16_prepared_transaction_is_completed_by_the_next_coordinator(
        self, coordinated: TransactionNode
    ) -> None:
        producer = coordinated.host().producer()
        coordinated.add(producer)
        coordinated.end(producer)
        coordinated.restart()  # before the markers were written, in the next turn of the loop
        coordinated.settle()
        assert coordinated.records() == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
        assert coordinated.markers() == ["commit 1 by 0"]

    def test_new_coordinator_serves_once_all_that_it_loaded_is_committed(self, coordinated: TransactionNode) -> None:
        """Another leader might lack the decision: markers and answers must not depend on it."""
        coordinated.host(replicated=True)
        began = coordinated.init()
        coordinated.settle()
        coordinated.replicate()
        producer = coordinated.producer_of(began)
        coordinated.add(producer)
        coordinated.replicate()
        coordinated.end(producer)
        coordinated.restart()
        assert coordinated.records() == ["Empty", "Ongoing", "PrepareCommit"]
        assert coordinated.markers() == []
        assert coordinated.add(producer) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        coordinated.replicate()
        coordinated.replicate()
        assert coordinated.markers() == ["commit 1 by 0"]
        assert coordinated.state() == "CompleteCommit"

    def test_loaded_records_may_take_longer_than_a_write_to_be_committed(self, coordinated: TransactionNode) -> None:
        coordinated.host(replicated=True)
        began = coordinated.init()
        coordinated.settle()
        coordinated.restart()
        coordinated.node.pass_time(60.0)
        assert coordinated.init().error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        coordinated.replicate()
        coordinated.node.pass_time(1.0)
        assert coordinated.state() == "Empty"
        assert not pending(began)

    def test_markers_of_an_unloaded_shard_are_not_those_of_the_shard_that_is_loaded_next(
        self, coordinated: TransactionNode
    ) -> None:
        coordinated.host().producer()
        transactions, index = coordinated.transactions, coordinated.index()
        [before] = transactions.runtime.host_at(index).shard.ids.values()
        assert transactions.coordinator_epoch(before) == 0
        transactions.runtime.leadership_changed(index, None)
        transactions.runtime.leadership_changed(index, 5)
        coordinated.settle()
        [after] = transactions.runtime.host_at(index).shard.ids.values()
        assert (transactions.coordinator_epoch(before), transactions.coordinator_epoch(after)) == (None, 5)

    def test_open_transaction_stays_open(self, coordinated: TransactionNode) -> None:
        producer = coordinated.host().producer()
        coordinated.add(producer)
        coordinated.restart()
        assert coordinated.state() == "Ongoing"
        assert coordinated.add(producer) == ErrorCode.NONE
        assert [name for name, _ in coordinated.transactions.states()] == ["t"]


class TestTime:
    def test_transaction_that_is_open_for_too_long_is_aborted(self, coordinated: TransactionNode) -> None:
        producer = coordinated.host().producer(timeout_ms=1_000)
        coordinated.add(producer)
        coordinated.node.pass_time(1.0)
        coordinated.node.wait(coordinated.transactions.abort_timed_out())
        assert coordinated.state() == "Ongoing"
        coordinated.node.pass_time(0.01)
        coordinated.node.wait(coordinated.transactions.abort_timed_out())
        coordinated.settle()
        assert (coordinated.state(), coordinated.markers()) == ("CompleteAbort", ["abort 1 by 0"])
        assert coordinated.end(producer).error == ErrorCode.INVALID_TXN_STATE

    def test_decisions_of_large_transactions_are_written_in_several_turns(self, coordinated: TransactionNode) -> None:
        coordinated.host()
        for number in range(4):
            name = str(number)
            producer = coordinated.producer(name, timeout_ms=1_000)
            added = coordinated.add(producer, *[("gone", index) for index in range(4_000)], name=name)
            assert coordinated.node.wait(added) == ErrorCode.NONE
        coordinated.node.pass_time(1.01)
        aborting = coordinated.transactions.abort_timed_out()
        aborting.send(None)
        decided = [coordinated.records(str(number))[-1] != "Ongoing" for number in range(4)]
        assert decided.count(True) == 1
        for _ in range(3):
            aborting.send(None)
        aborting.close()
        coordinated.settle()
        assert {coordinated.state(str(number)) for number in range(4)} == {"CompleteAbort"}

    def test_many_transactions_that_time_out_are_aborted_in_several_turns(self, coordinated: TransactionNode) -> None:
        coordinated.host()
        names = [str(number) for number in range(500)]
        for name in names:
            coordinated.add(coordinated.producer(name, timeout_ms=1_000), name=name)
        coordinated.node.pass_time(1.01)
        aborting = coordinated.transactions.abort_timed_out()
        open_ = [len(names)]
        while open_[-1]:
            aborting.send(None)
            open_.append(sum(metadata.state.name == "ONGOING" for _, metadata in coordinated.transactions.states()))
        aborting.close()
        assert max(before - after for before, after in pairwise(open_)) <= 100

    def test_unused_ids_are_removed(self, coordinated: TransactionNode) -> None:
        coordinated.host()
        used = coordinated.producer("used")
        coordinated.add(used, name="used")
        for number in range(1_500):
            coordinated.producer(str(number))
        coordinated.node.pass_time(7 * 86_400 + 1)
        coordinated.node.wait(coordinated.transactions.expire())
        assert [name for name, _ in coordinated.transactions.states()] == ["used"]
        coordinated.restart()
        assert [name for name, _ in coordinated.transactions.states()] == ["used"]

    def test_unused_ids_with_long_names_are_removed(self, coordinated: TransactionNode) -> None:
        coordinated.host()
        for number in range(40):
            coordinated.producer(str(number) + 32_000 * "i")
        coordinated.node.pass_time(7 * 86_400 + 1)
        coordinated.node.wait(coordinated.transactions.expire())
        assert list(coordinated.transactions.states()) == []
