"""Brokers that replicate from each other: what holds when leaders, links and disks fail."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from broker.replication.partition import EARLIEST, LATEST, Isolation, Partition
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_partition import AlterPartitionRequest
from protocol.messages.delete_records import DeleteRecordsRequest
from protocol.messages.fetch import FetchRequest
from protocol.records.metadata import FenceBrokerRecord, RemoveTopicRecord, UnfenceBrokerRecord
from storage.steps import finish
from tests.typed import present
from tests.unit.broker.replica_cluster import CONTROLLER_ID, LAG_MAX_MS, MAX_WAIT_S, TOPIC_ID, ReplicaCluster

LAG_S = LAG_MAX_MS / 1000


def visible(cluster: ReplicaCluster, broker: int) -> list[bytes | None]:
    """Return the values that a consumer can read at a broker."""
    high_watermark = cluster[broker].partition("t").high_watermark
    return [one.value for one in cluster[broker].stored("t") if one.offset < high_watermark]


def latest(cluster: ReplicaCluster, broker: int) -> int:
    return finish(cluster[broker].partition("t").find_offset(LATEST, Isolation.READ_UNCOMMITTED)).offset


class TestCopying:
    def test_followers_have_leaders_bytes(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3)
        for number in range(5):
            cluster.append(b"%d" % number, b"more")
        cluster.let_pass(1)
        assert cluster.equal()
        assert cluster.ends() == dict.fromkeys((1, 2, 3), (10, 10))

    def test_acks_all_completes_when_all_replicas_have_record(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3)
        cluster.let_pass(0.1)
        before = cluster.schedule.now
        assert cluster.code(cluster.producing(b"v")) == 0
        assert cluster.schedule.now - before < 0.01
        assert {end for _, end in cluster.ends().values()} == {1}

    def test_followers_receive_high_watermark_after_max_wait(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3)
        cluster.append(b"v")
        cluster.let_pass(2 * MAX_WAIT_S)
        assert cluster.ends()[2] == (1, 1)

    def test_idle_fetch_waits_and_has_no_partitions(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2)
        cluster.append(b"v")
        cluster.let_pass(2)
        cluster.sent[2].clear()
        cluster.let_pass(10)
        assert 0 < len(cluster.sent[2]) <= 20
        assert all(isinstance(one, FetchRequest) and one.topics == [] for one in cluster.sent[2])

    def test_partition_created_during_fetch_wait_is_fetched_immediately(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2)
        cluster.let_pass(2.1)
        cluster.place(1, 2, topic="u")
        assert cluster.code(cluster.producing(b"v", topic="u", timeout_ms=50)) == 0

    def test_deleted_topic_is_not_fetched(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2)
        cluster.let_pass(1)
        assert cluster[2].replication.leaders == {1: 1}
        cluster.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
        assert cluster[2].replication.leaders == {}
        cluster.sent[2].clear()
        cluster.let_pass(1)
        assert cluster.sent[2] == []

    def test_leader_with_delayed_metadata_is_fetched_from_soon(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3)
        cluster.let_pass(1)
        cluster.delay(2)
        cluster.elect(2)
        cluster.let_pass(0.2)
        cluster.catch_up(2)
        assert cluster.code(cluster.producing(b"v", timeout_ms=500)) == 0

    def test_lost_connection_is_reestablished(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2)
        cluster.let_pass(1)
        cluster.cut(1, 2)
        cluster.reset(1, 2)
        cluster.append(b"v")
        cluster.let_pass(2.5)
        cluster.mend()
        cluster.let_pass(1.5)
        assert cluster.equal()

    def test_failed_disk_of_follower_does_not_affect_others(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2)
        cluster.place(1, 2, topic="u")
        cluster.let_pass(1)
        cluster[2].partition("u").log.mark_deleted()
        cluster.append(b"v", topic="u")
        cluster.append(b"v")
        cluster.let_pass(1)
        assert cluster.ends()[2] == (1, 1)
        assert cluster.ends("u")[2] == (0, 0)
        cluster.sent[2].clear()
        cluster.let_pass(1)
        assert len(cluster.sent[2]) < 5


class TestFailover:
    def test_rule_1_logs_are_equal_after_two_failovers(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3)
        cluster.append(b"a")
        cluster.let_pass(1)
        cluster.cut(1, 2)
        cluster.cut(1, 3)
        cluster.delay(1)
        cluster.append(b"lost", b"lost too")
        cluster.append(b"lost as well")
        cluster.elect(2)
        cluster.cut(2, 3)
        cluster.delay(2)
        cluster.append(b"lost again")
        cluster.elect(3)
        cluster.append(b"b", b"c")
        for broker in (1, 2):
            cluster.catch_up(broker)
        cluster.mend()
        cluster.let_pass(3)
        assert cluster.equal()
        assert cluster.stored(1) == [b"a", b"b", b"c"]

    def test_rule_1_follower_does_not_truncate_to_its_own_high_watermark(self, cluster: ReplicaCluster) -> None:
        """KIP-101, scenario 1: committed records survive, though the next leader did not know of the commit."""
        cluster.place(1, 2)
        cluster.append(b"a")
        cluster.let_pass(1)  # broker 2 gets the high watermark 1
        assert cluster.code(cluster.producing(b"committed")) == 0
        cluster.cut(1, 2)
        cluster.stop(2)
        cluster.start(2)
        assert cluster.ends()[2] == (1, 2)
        cluster.stop(1)
        cluster.mend()
        cluster.elect(2, [2])
        cluster.start(1)
        cluster.let_pass(1)
        assert cluster.stored(1) == cluster.stored(2) == [b"a", b"committed"]
        assert cluster.equal()

    def test_rule_2_follower_removes_leader_epochs_without_records(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3)
        cluster.append(b"a")
        cluster.let_pass(1)
        cluster.elect(2)
        cluster.elect(3)
        cluster.elect(1)
        cluster.append(b"b")
        cluster.let_pass(1)
        epochs = [tuple(cluster[broker].partition("t").log.leader_epochs.entries) for broker in (1, 2, 3)]
        assert epochs == [((0, 0), (3, 1))] * 3
        assert cluster.equal()

    def test_rule_3_consumed_records_survive_failovers(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3)
        read: list[bytes | None] = []
        for number in range(12):
            leader = number % 3 + 1
            if number:
                cluster.elect(leader)
            cluster.append(b"%d" % number)
            if number % 2:
                cluster.let_pass(0.01)
            found = visible(cluster, leader)
            assert read[: len(found)] == found[: len(read)]
            read = max(read, found, key=len)
        cluster.let_pass(1)
        assert [visible(cluster, broker)[: len(read)] for broker in (1, 2, 3)] == [read] * 3

    def test_rule_4_new_leader_serves_only_provably_committed_records(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3)
        cluster.append(b"a")
        cluster.let_pass(1)
        cluster.cut(1, 3)
        cluster.append(b"not committed")
        cluster.let_pass(0.1)
        cluster.kill(1)
        cluster.cut(2, 3)
        cluster.elect(2, [2, 3])
        cluster.let_pass(0.1)
        assert visible(cluster, 2) == [b"a"]
        with pytest.raises(KafkaError) as refused:
            latest(cluster, 2)
        assert refused.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
        cluster.mend()
        cluster.let_pass(1.5)
        assert visible(cluster, 2) == [b"a", b"not committed"]
        assert latest(cluster, 2) == 2

    def test_follower_with_more_records_truncates_after_unclean_election(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2)
        cluster.append(b"a")
        cluster.let_pass(1)
        cluster.stop(2)
        cluster.append(b"b", b"c")
        cluster.stop(1)
        cluster.start(2)
        cluster.elect(2, [2])
        cluster.start(1)
        cluster.let_pass(1)
        assert cluster.stored(1) == [b"a"]
        assert cluster.equal()

    @pytest.mark.parametrize(
        ("deleted_to", "same_batches"),
        [
            pytest.param(3, True, id="the leader's log starts between two of its batches"),
            pytest.param(3, False, id="it starts inside one"),
            pytest.param(4, False, id="it starts inside one, where the follower's ends"),
        ],
    )
    def test_rule_1_follower_that_diverges_before_leaders_log_start_empties_its_log(
        self, cluster: ReplicaCluster, deleted_to: int, same_batches: bool
    ) -> None:
        """The leader has deleted the records of the divergence point, with their epochs."""
        cluster.place(1, 2)
        cluster.append(b"a")
        cluster.let_pass(1)
        cluster.stop(2)
        for value in (b"lost", b"lost too", b"lost as well"):
            cluster.append(value)
        cluster.stop(1)
        cluster.start(2)
        cluster.elect(2, [2])
        for values in ((b"b",), (b"c",), (b"d",), (b"e",)) if same_batches else ((b"b",), (b"c", b"d", b"e")):
            cluster.append(*values)
        cluster[2].replicas.delete_records(cluster[2].partition("t"), deleted_to)
        cluster.start(1)
        cluster.let_pass(3)
        log = cluster[1].partition("t").log
        assert (log.log_start_offset, log.log_end_offset, cluster.isr) == (deleted_to, 5, {1, 2})
        assert b"lost" not in cluster.bytes_of(1)

    @pytest.mark.parametrize("seed", range(8))
    def test_rule_1_logs_converge_with_all_acknowledged_records_after_random_failures(
        self, cluster: ReplicaCluster, seed: int
    ) -> None:
        random = Random(seed)
        cluster.place(1, 2, 3)
        written: list[tuple[bytes, asyncio.Task[Any]]] = []
        for number in range(25):
            leader = cluster.leader
            match random.randrange(7):
                case 0:
                    cluster.cut(*random.sample((1, 2, 3), 2))
                case 1:
                    cluster.mend()
                case 2:
                    cluster.delay(leader)  # It does not know that it lost leadership.
                    cluster.elect(random.choice(sorted(cluster.isr)))
                case 3:
                    broker = random.choice((1, 2, 3))
                    cluster.stop(broker)
                    cluster.start(broker)
                case 4:
                    for broker in (1, 2, 3):
                        cluster.catch_up(broker)
                case _:
                    value = b"%d" % number
                    written.append((value, cluster.producing(value, timeout_ms=200)))
            cluster.let_pass(random.choice((0.0, 0.001, 0.004, 0.05, 0.3)))
        for broker in (1, 2, 3):
            cluster.catch_up(broker)
        cluster.mend()
        cluster.elect(random.choice(sorted(cluster.isr)))
        cluster.let_pass(LAG_S)
        assert cluster.isr == {1, 2, 3}
        assert cluster.equal()
        acknowledged = [value for value, produced in written if cluster.code(produced) == 0]
        stored = cluster.stored(cluster.leader)
        assert [value for value in stored if value in acknowledged] == acknowledged
        assert {high_watermark for high_watermark, _ in cluster.ends().values()} == {len(stored)}


class TestInSync:
    def test_rule_3_nothing_is_committed_while_the_isr_is_below_its_minimum(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3, isr=(1,), min_insync_replicas=2)
        cluster.cut(1, 2)
        cluster.cut(1, 3)
        cluster.append(b"v")
        cluster.let_pass(1)
        assert visible(cluster, 1) == []
        cluster.mend()
        cluster.let_pass(2)
        assert cluster.isr == {1, 2, 3}
        assert visible(cluster, 1) == [b"v"]

    def test_rule_6_acks_all_waits_for_whole_isr_and_record_stays_on_timeout(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3, min_insync_replicas=2)
        cluster.let_pass(1)
        cluster.cut(1, 3)
        assert cluster.code(cluster.producing(b"maybe", timeout_ms=1000)) == ErrorCode.REQUEST_TIMED_OUT
        assert cluster.stored(1) == cluster.stored(2) == [b"maybe"]
        assert visible(cluster, 1) == []
        cluster.let_pass(2 * LAG_S)
        assert cluster.isr == {1, 2}
        assert visible(cluster, 1) == [b"maybe"]

    def test_rule_7_smaller_isr_applies_only_once_committed(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3)
        cluster.let_pass(1)
        cluster.pause_controller()
        cluster.cut(1, 3)
        cluster.append(b"v")
        cluster.let_pass(2 * LAG_S)
        assert cluster[1].partition("t").proposed_isr == frozenset({1, 2})
        assert cluster.ends()[1] == (0, 1)
        cluster.resume_controller()
        cluster.until(lambda: cluster.isr == {1, 2})
        cluster.let_pass(0.01)
        assert cluster.ends()[1] == (1, 1)

    def propose_to_paused_controller(self, cluster: ReplicaCluster) -> Partition:
        """Let the leader propose a larger ISR; return its replica."""
        cluster.cut(1, 2)
        cluster.place(1, 2, isr=(1,))
        cluster.pause_controller()
        cluster.mend()
        leader = cluster[1].partition("t")
        cluster.until(lambda: cluster.sent_by(1, AlterPartitionRequest))
        assert (leader.isr, leader.maximal_isr) == (frozenset({1}), frozenset({1, 2}))
        return leader

    def test_rule_7_larger_isr_applies_once_proposed(self, cluster: ReplicaCluster) -> None:
        leader = self.propose_to_paused_controller(cluster)
        cluster.cut(1, 2)
        cluster.append(b"v")
        cluster.let_pass(2 * LAG_S)
        assert leader.high_watermark == 0
        cluster.mend()
        cluster.resume_controller()
        cluster.until(lambda: cluster.isr == {1, 2})
        cluster.until(lambda: leader.high_watermark == 1)

    def test_rule_7_isr_change_with_lost_response_is_applied_from_metadata(self, cluster: ReplicaCluster) -> None:
        leader = self.propose_to_paused_controller(cluster)
        answers = cluster.world.network.link("b4", "b1")
        answers.up = False
        cluster.resume_controller()
        cluster.until(lambda: cluster.isr == {1, 2})
        cluster.hosts[CONTROLLER_ID].crash(power=True)
        answers.up = True
        assert leader.isr == {1}
        cluster.start(CONTROLLER_ID)
        cluster.catch_up(1)
        assert leader.isr == {1, 2}
        cluster.let_pass(2)  # The channel repeats the request.
        assert leader.partition_epoch == 1
        cluster.sent[1].clear()
        cluster.let_pass(2)
        assert cluster.sent_by(1, AlterPartitionRequest) == []

    def test_rule_7_isr_change_is_retried_until_answered(self, cluster: ReplicaCluster) -> None:
        self.propose_to_paused_controller(cluster)
        cluster.kill(CONTROLLER_ID)
        cluster.start(CONTROLLER_ID)
        assert cluster.isr == {1}
        cluster.let_pass(2)
        assert len(cluster.sent_by(1, AlterPartitionRequest)) == 2
        assert cluster.isr == {1, 2}

    def test_rule_8_restarted_broker_joins_isr_only_with_its_new_epoch(self, cluster: ReplicaCluster) -> None:
        lifecycle = cluster.broker(2).lifecycle
        lifecycle.broker_epoch -= 1
        cluster.place(1, 2, isr=(1,))
        cluster.append(b"v")
        cluster.let_pass(3)
        assert cluster.isr == {1}
        lifecycle.broker_epoch += 1
        cluster.let_pass(3)
        assert cluster.isr == {1, 2}

    def test_fenced_broker_replicates_and_joins_isr_once_unfenced(self, cluster: ReplicaCluster) -> None:
        epoch = cluster.broker(2).broker_epoch
        cluster.cut(1, 2)
        cluster.place(1, 2, isr=(1,))
        cluster.delay(2)
        cluster.commit(FenceBrokerRecord(id=2, epoch=epoch))
        cluster.mend()
        cluster.append(b"v")
        cluster.let_pass(2)
        assert cluster.equal()
        assert cluster.isr == {1}
        assert cluster.image.brokers[2].fenced
        cluster.commit(UnfenceBrokerRecord(id=2, epoch=epoch))
        cluster.let_pass(0.1)
        assert cluster.isr == {1, 2}

    def test_follower_joins_isr_of_leader_with_continuous_appends(self, cluster: ReplicaCluster) -> None:
        cluster.stop(2)
        cluster.place(1, 2, isr=(1,))
        cluster.append(b"v")
        cluster.start(2)
        for _ in range(500):
            cluster.append(b"v")
            cluster.let_pass(0.001)
        assert cluster.isr == {1, 2}

    def test_idle_follower_stays_in_isr_regardless_of_last_fetch_time(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2)
        cluster.append(b"v")
        cluster.let_pass(10 * LAG_S)
        cluster.append(b"v")
        cluster.let_pass(0.0)
        cluster[1].replication.isr.check(cluster[1].partition("t"))
        cluster.let_pass(LAG_S)
        assert cluster.sent_by(1, AlterPartitionRequest) == []

    def test_rule_28_broker_with_empty_disk_joins_isr_only_after_refill(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3, segment_bytes=2000)
        for number in range(50):
            cluster.append(b"%d" % number * 100)
        cluster.let_pass(1)
        cluster.stop(3)
        cluster.elect(1, [1, 2])
        cluster.add(3, replica_fetch_max_bytes="500")
        cluster.start(3)
        behind = 0
        for _ in range(1000):
            if cluster.isr == {1, 2, 3}:
                break
            behind += cluster.ends()[3][1] < cluster.ends()[1][0]
            cluster.let_pass(0.001)
        assert behind > 20
        cluster.let_pass(1)
        assert cluster.equal()


class TestLogStart:
    def delete(self, cluster: ReplicaCluster, offset: int) -> int:
        """Delete records at the leader; return the low watermark of the response."""
        response = cluster[cluster.leader].answer(
            ApiKey.DELETE_RECORDS,
            2,
            timeout_ms=5000,
            topics=[
                DeleteRecordsRequest.Topic(
                    name="t", partitions=[DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=offset)]
                )
            ],
        )
        (answer,) = response.topics[0].partitions
        assert answer.error_code == 0
        low: int = answer.low_watermark
        return low

    def starts(self, cluster: ReplicaCluster) -> list[int]:
        return [cluster[broker].partition("t").log.log_start_offset for broker in (1, 2, 3)]

    def test_rule_23_delete_records_completes_after_every_replica_deleted(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3)
        for _ in range(4):
            cluster.append(b"v")
        cluster.let_pass(2.2)
        before = cluster.schedule.now
        assert self.delete(cluster, 3) == 3
        assert cluster.schedule.now - before < 0.05
        assert self.starts(cluster) == [3, 3, 3]

    def test_delete_records_does_not_wait_for_fenced_broker(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3)
        for _ in range(4):
            cluster.append(b"v")
        cluster.let_pass(1)
        fenced = cluster.submit(FenceBrokerRecord(id=3, epoch=cluster.broker(3).broker_epoch))
        cluster.hosts[3].pause()
        loop = present(cluster.hosts[CONTROLLER_ID].loop)
        loop.call_later(1, loop.create_task, fenced)
        before = cluster.schedule.now
        assert self.delete(cluster, 3) == 3
        assert cluster.schedule.now - before == pytest.approx(1, abs=0.1)

    def test_rule_23_restarted_replica_does_not_restore_deleted_records(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3)
        for _ in range(4):
            cluster.append(b"v")
        cluster.let_pass(1)
        self.delete(cluster, 3)
        cluster.broker(2).logs.checkpoint = lambda *_: None  # type: ignore[method-assign]
        cluster.kill(2)
        cluster.cut(1, 2)
        cluster.cut(2, 3)
        cluster.start(2)
        cluster.elect(2, [2])
        assert finish(cluster[2].partition("t").find_offset(EARLIEST, Isolation.READ_UNCOMMITTED)).offset == 3

    def test_follower_below_leaders_log_start_restarts_its_log(self, cluster: ReplicaCluster) -> None:
        cluster.place(1, 2, 3)
        cluster.append(b"v")
        cluster.let_pass(1)
        cluster.stop(3)
        cluster.elect(1, [1, 2])
        for _ in range(5):
            cluster.append(b"v")
        cluster.let_pass(1)
        cluster[1].replicas.delete_records(cluster[1].partition("t"), 5)
        cluster.let_pass(1)
        cluster.start(3)
        cluster.let_pass(1)
        log = cluster[3].partition("t").log
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (5, 6, 6)
        assert cluster.isr == {1, 2, 3}
