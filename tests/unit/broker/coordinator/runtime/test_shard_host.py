"""Responses wait for commit; a failed append leaves the state unchanged (rule 29)."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any

import pytest

from broker.coordinator.group.offsets import Committed
from broker.coordinator.group.records import offset_record
from broker.coordinator.group.shard import Commit, GroupCoordinatorShard, Offset
from broker.coordinator.runtime import context
from broker.coordinator.runtime.shard_host import RECORDS_A_TURN, coordinator_error
from protocol.errors import ErrorCode, KafkaError
from protocol.record import Record
from protocol.record_batch import ControlType, assign, build_batch, control_record_key
from storage.log.log import Log
from tests.disks import FaultyDisk
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.group_node import GroupNode, pending

NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


class TestCommitted:
    """Responses wait for the high watermark."""

    def test_a_commit_is_answered_once_it_is_replicated(self, group_node: GroupNode) -> None:
        group_node.host(replicated=True)
        outcome = group_node.commit(5)
        group_node.settle()
        assert pending(outcome)
        group_node.replicate()
        assert group_node.wait(outcome) == [ErrorCode.NONE]

    def test_a_commit_on_one_replica_is_answered_at_once(self, group_node: GroupNode) -> None:
        group_node.host()
        assert group_node.commit(5) == [ErrorCode.NONE]

    def test_offset_fetch_does_not_return_uncommitted_offsets(self, group_node: GroupNode) -> None:
        group_node.host(replicated=True)
        group_node.commit(5)
        seen = group_node.groups.committed_shard("g")
        group_node.settle()
        assert pending(seen)
        group_node.replicate()
        assert group_node.wait(seen).offsets.get("g", "t", 0).offset == 5

    def test_join_response_waits_for_replication(self, group_node: GroupNode) -> None:
        group_node.host(replicated=True)
        outcome = group_node.join(needs_member_id=True)
        group_node.settle()
        assert pending(outcome)
        group_node.replicate()
        assert group_node.wait(outcome).error == ErrorCode.MEMBER_ID_REQUIRED

    def test_sync_response_waits_for_replication(self, group_node: GroupNode) -> None:
        group_node.host(replicated=True)
        joining = group_node.join()
        group_node.replicate()
        joined = group_node.wait(joining)
        syncing = group_node.sync(joined.member_id, 1, to={joined.member_id: b"all"})
        group_node.settle()
        assert pending(syncing)
        assert group_node.state() == "CompletingRebalance"
        group_node.replicate()
        assert group_node.wait(syncing).assignment == b"all"
        assert group_node.state() == "Stable"

    def test_sync_response_shows_no_generation_that_a_former_coordinator_could_not_commit(
        self, group_node: GroupNode
    ) -> None:
        group_node.host(replicated=True)
        joining = group_node.join()
        group_node.replicate()
        member_id = group_node.wait(joining).member_id
        group_node.sync(member_id, 1, to={member_id: b"all"})
        group_node.restart()
        group_node.settle()
        assert group_node.state() == "Stable"
        syncing = group_node.sync(member_id, 1)
        group_node.settle()
        assert pending(syncing)
        group_node.replicate()
        assert group_node.wait(syncing).assignment == b"all"

    def test_log_line_of_a_single_member_group_is_singular(
        self, group_node: GroupNode, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG, "broker.coordinator.group")
        group_node.host()
        joined = group_node.wait(group_node.join())
        group_node.wait(group_node.sync(joined.member_id, 1, to={joined.member_id: b"all"}))
        assert "generation 1 begins with 1 member\n" in caplog.text
        assert "generation 1 is stable with 1 member\n" in caplog.text

    def test_leave_response_of_the_last_member_waits_for_replication(self, group_node: GroupNode) -> None:
        group_node.host(replicated=True)
        joining = group_node.join()
        group_node.replicate()
        leaving = group_node.leave(group_node.wait(joining).member_id)
        group_node.settle()
        assert pending(leaving)
        group_node.replicate()
        assert group_node.wait(leaving).members == (ErrorCode.NONE,)

    def test_committed_offsets_are_readable_while_the_isr_is_below_min_isr(self, group_node: GroupNode) -> None:
        group_node.host(replicated=True, min_isr=2)
        outcome = group_node.commit(5)
        group_node.replicate()
        assert group_node.wait(outcome) == [ErrorCode.NONE]
        group_node.fail_appends()
        assert group_node.offset() == 5

    def test_timed_out_record_may_still_be_committed(self, group_node: GroupNode) -> None:
        group_node.host(replicated=True)
        assert group_node.wait(group_node.commit(5)) == NOT_AVAILABLE
        group_node.replicate()
        assert group_node.offset() == 5

    def test_waiting_requests_get_not_coordinator_when_leadership_is_lost(self, group_node: GroupNode) -> None:
        group_node.host(replicated=True)
        committing = group_node.commit(5)
        reading = group_node.groups.committed_shard("g")
        querying = group_node.join(needs_member_id=True, group_id="new")
        for index in range(3):
            group_node.node.elect("__consumer_offsets", 2, index=index)
        group_node.settle()
        assert group_node.wait(committing) == ErrorCode.NOT_COORDINATOR
        assert group_node.wait(reading) == ErrorCode.NOT_COORDINATOR
        assert group_node.wait(querying).error == ErrorCode.NOT_COORDINATOR

    def test_pending_commit_gets_not_coordinator_if_the_host_closes_before_replication(
        self, group_node: GroupNode
    ) -> None:
        group_node.host(replicated=True)
        outcome = group_node.commit(5)
        group_node.groups.runtime.stop()
        group_node.replicate()
        assert (
            group_node.node.partition("__consumer_offsets", group_node.groups.runtime.partition_of("g")).high_watermark
            == 1
        )
        assert group_node.wait(outcome) == ErrorCode.NOT_COORDINATOR

    def test_pending_leave_gets_not_coordinator_when_leadership_is_lost(self, group_node: GroupNode) -> None:
        group_node.host(replicated=True)
        joining = group_node.join()
        group_node.replicate()
        leaving = group_node.leave(group_node.wait(joining).member_id)
        group_node.node.elect("__consumer_offsets", 2, index=group_node.groups.runtime.partition_of("g"))
        group_node.settle()
        assert group_node.wait(leaving).error == ErrorCode.NOT_COORDINATOR


class TestRule29:
    """A failed append of any record type changes nothing."""

    @pytest.fixture
    def failing(self, group_node: GroupNode) -> GroupNode:
        return group_node.host(replicated=True, min_isr=2)

    def start(self, node: GroupNode, instance: str | None = None) -> str:
        joining = node.join(instance=instance)
        node.replicate()
        joined = node.wait(joining)
        syncing = node.sync(joined.member_id, 1, instance=instance, to={joined.member_id: b"all"})
        node.replicate()
        assert node.wait(syncing).assignment == b"all"
        result: str = joined.member_id
        return result

    def commit(self, node: GroupNode, offset: int) -> None:
        outcome = node.commit(offset)
        node.replicate()
        assert node.wait(outcome) == [ErrorCode.NONE]

    def test_rule_29_a_failed_append_of_a_new_group(self, failing: GroupNode) -> None:
        failing.fail_appends()
        assert failing.wait(failing.join()).error == NOT_AVAILABLE
        assert failing.state() is None

    def test_rule_29_a_failed_append_of_an_assignment(self, failing: GroupNode) -> None:
        joining = failing.join()
        failing.replicate()
        joined = failing.wait(joining)
        failing.fail_appends()
        synced = failing.wait(failing.sync(joined.member_id, 1, to={joined.member_id: b"all"}))
        assert synced.error == NOT_AVAILABLE
        assert failing.state() == "PreparingRebalance"

    def test_rule_29_a_failed_append_of_a_static_members_replacement(self, failing: GroupNode) -> None:
        member = self.start(failing, instance="A")
        failing.fail_appends()
        assert failing.wait(failing.join(instance="A")).error == NOT_AVAILABLE
        assert failing.groups.heartbeat("g", member, "A", 1) == ErrorCode.NONE

    def test_rule_29_a_failed_append_of_an_emptied_group(self, failing: GroupNode) -> None:
        member = self.start(failing)
        failing.fail_appends()
        assert failing.wait(failing.leave(member)).error == NOT_AVAILABLE

    def test_rule_29_a_failed_append_of_a_commit(self, failing: GroupNode) -> None:
        self.commit(failing, 5)
        failing.fail_appends()
        with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
            failing.commit(6)
        assert failing.offset() == 5

    def test_rule_29_a_failed_append_of_a_deleted_offset(self, failing: GroupNode) -> None:
        self.commit(failing, 5)
        failing.fail_appends()
        assert failing.call("delete_offsets", "g", [("t", 0)]) == NOT_AVAILABLE
        assert failing.offset() == 5

    def test_rule_29_a_failed_append_of_a_deleted_group(self, failing: GroupNode) -> None:
        self.commit(failing, 5)
        failing.fail_appends()
        assert failing.call("delete_group", "g") == NOT_AVAILABLE
        assert failing.offset() == 5

    def test_rule_29_a_failed_append_of_expired_offsets(self, failing: GroupNode) -> None:
        self.commit(failing, 5)
        failing.fail_appends()
        failing.node.pass_time(8 * 86_400)
        failing.wait(failing.groups.expire())
        assert failing.offset() == 5
        failing.allow_appends()
        failing.wait(failing.groups.expire())
        failing.replicate()
        assert failing.offset() is None
        assert failing.state() is None

    def test_rule_29_a_failed_append_of_a_deleted_topics_offsets(self, failing: GroupNode) -> None:
        self.commit(failing, 5)
        failing.fail_appends()
        failing.groups.topics_deleted([("t", b"t" * 16)])
        failing.settle()
        assert failing.offset() == 5


class TestLoading:
    """Rule 17."""

    @pytest.mark.parametrize(
        "run_rule",
        [
            lambda node, member: node.join(),
            lambda node, member: node.sync(member, 1),
            lambda node, member: node.leave(member),
            lambda node, member: node.commit(5, member_id=member, generation=1),
            lambda node, member: node.groups.committed_shard("g"),
            lambda node, member: node.groups.delete_group("g"),
            lambda node, member: node.groups.delete_offsets("g", [("t", 0)]),
        ],
        ids=["join", "sync", "leave", "commit", "read", "delete the group", "delete offsets"],
    )
    def test_requests_during_loading_get_coordinator_load_in_progress(
        self, group_node: GroupNode, run_rule: Callable[[GroupNode, str], Any]
    ) -> None:
        group_node.host()
        member = group_node.stable_member()
        group_node.restart()
        with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            group_node.wait(run_rule(group_node, member))
        group_node.settle()
        assert group_node.state() == "Stable"
        assert group_node.wait(group_node.commit(5, member_id=member, generation=1)) == [ErrorCode.NONE]

    def test_groups_members_and_offsets_are_loaded(self, group_node: GroupNode) -> None:
        group_node.host()
        member = group_node.stable_member()
        group_node.wait(group_node.commit(7, member_id=member, generation=1))
        group_node.restart()
        assert group_node.call("committed_shard", "g") == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert group_node.groups.heartbeat("g", member, None, 1) == ErrorCode.NONE
        group_node.settle()
        assert group_node.offset() == 7
        assert group_node.state() == "Stable"
        assert group_node.groups.heartbeat("g", member, None, 1) == ErrorCode.NONE
        assert group_node.wait(group_node.sync(member, 1)).assignment == b"all"

    def test_sessions_start_when_the_group_is_loaded(self, group_node: GroupNode) -> None:
        group_node.host()
        member = group_node.stable_member()
        group_node.restart()
        group_node.settle()
        group_node.node.pass_time(9.9)
        assert group_node.groups.heartbeat("g", member, None, 1) == ErrorCode.NONE
        group_node.node.pass_time(10.1)
        assert group_node.groups.heartbeat("g", member, None, 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert group_node.state() == "Empty"

    def test_member_without_heartbeats_after_a_load_is_removed(self, group_node: GroupNode) -> None:
        group_node.host()
        group_node.stable_member()
        group_node.restart()
        group_node.settle()
        group_node.node.pass_time(10.1)
        assert group_node.state() == "Empty"

    def test_long_log_is_loaded_in_many_loop_iterations(self, group_node: GroupNode) -> None:
        group_node.host()
        for offset in range(1_000):
            group_node.wait(group_node.commit(offset))
        group_node.restart()
        group_node.node.pass_time(0)
        assert group_node.call("committed_shard", "g") == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        group_node.node.pass_time(1)
        assert group_node.offset() == 999

    def test_deleted_groups_and_offsets_are_not_loaded(self, group_node: GroupNode) -> None:
        group_node.host()
        group_node.wait(group_node.commit(5))
        group_node.wait(group_node.commit(6, group="h", partition=1))
        group_node.call("delete_group", "g")
        group_node.restart()
        group_node.settle()
        assert group_node.offset() is None
        assert group_node.state() is None
        assert group_node.offset(group="h", partition=1) == 6

    def commit_many(self, group_node: GroupNode) -> tuple[str, bytes]:
        """Commit offsets of 5,000 partitions of a topic: their tombstones do not fit into one batch."""
        topic, topic_id = 249 * "t", b"t" * 16
        for first in range(0, 5_000, 1_000):
            offsets = [Offset(topic, topic_id, index, 7, -1, "") for index in range(first, first + 1_000)]
            group_node.call("commit", Commit("g", "", None, -1), offsets, retention_ms=-1, reports_unknown_group=True)
        assert group_node.groups.shard_of("g").fetch("g", topic, topic_id, 4_999) is not None
        return topic, topic_id

    def test_offsets_of_a_deleted_topic_with_more_partitions_than_fit_a_batch_are_deleted(
        self, group_node: GroupNode
    ) -> None:
        group_node.host()
        group_node.groups.topics_deleted([self.commit_many(group_node)])
        group_node.settle()
        assert not group_node.groups.shard_of("g").offsets.of_group("g")

    def test_a_group_with_more_offsets_than_fit_into_a_batch_is_deleted(self, group_node: GroupNode) -> None:
        group_node.host(replicated=True)
        self.commit_many(group_node)
        group_node.replicate()
        deleting = group_node.groups.delete_group("g")
        group_node.settle()
        assert not deleting.done()  # type: ignore[union-attr]  # of a type that is known here
        group_node.replicate()
        assert group_node.wait(deleting) is ErrorCode.NONE
        group_node.restart()
        group_node.node.pass_time(1)
        assert "g" not in group_node.groups.shard_of("g").groups
        assert not group_node.groups.shard_of("g").offsets.of_group("g")

    def test_more_offsets_than_fit_into_a_batch_are_deleted(self, group_node: GroupNode) -> None:
        group_node.host()
        topic, _ = self.commit_many(group_node)
        partitions = [(topic, index) for index in range(5_000)]
        assert set(group_node.call("delete_offsets", "g", partitions)) == {ErrorCode.NONE}
        assert not group_node.groups.shard_of("g").offsets.of_group("g")

    def test_offsets_of_many_groups_expire_in_several_loop_iterations(self, group_node: GroupNode) -> None:
        group_node.host()
        for number in range(1_000):
            group_node.wait(group_node.commit(5, group=f"g{number}"))
        group_node.node.pass_time(8 * 86_400)
        expiry = group_node.node.loop.create_task(group_node.groups.expire())
        group_node.node.pass_time(0)
        group_node.node.pass_time(0)
        assert 0 < sum(len(shard.groups) for shard in group_node.groups.shards()) < 1_000
        group_node.wait(expiry)
        assert not any(shard.groups for shard in group_node.groups.shards())

    def test_deleted_topic_offsets_of_many_groups_are_deleted_in_several_loop_iterations(
        self, group_node: GroupNode
    ) -> None:
        group_node.host()
        for number in range(1_000):
            group_node.wait(group_node.commit(5, group=f"g{number}"))
        left = [1_000]

        async def delete() -> None:
            group_node.groups.topics_deleted([("t", b"t" * 16)])
            while left[-1]:
                left.append(sum(len(shard.offsets.group_ids()) for shard in group_node.groups.shards()))
                await asyncio.sleep(0)

        group_node.node.loop.run_until_complete(delete())
        forgotten = [before - after for before, after in itertools.pairwise(left)]
        assert max(forgotten) <= RECORDS_A_TURN

    def test_deletion_of_topic_offsets_stops_with_the_coordinator(self, group_node: GroupNode) -> None:
        group_node.host()
        others = asyncio.all_tasks(group_node.node.loop)
        for number in range(1_000):
            group_node.wait(group_node.commit(5, group=f"g{number}"))
        group_node.groups.topics_deleted([("t", b"t" * 16)])
        group_node.groups.runtime.stop()
        group_node.node.pass_time(0)
        assert asyncio.all_tasks(group_node.node.loop) <= others

    def test_cold_reads_of_a_load_run_in_the_executor(self, new_node: NewNode) -> None:
        disk = FaultyDisk()
        node = new_node(disk)
        node.start()
        group_node = GroupNode(node).host()
        group_node.wait(group_node.commit(5))
        disk.cold = True
        waits: list[tuple[asyncio.Future[Any], Callable[..., Any]]] = []

        def run_in_executor(_executor: object, function: Callable[..., Any]) -> asyncio.Future[Any]:
            waits.append((node.loop.create_future(), function))
            return waits[-1][0]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(node.loop, "run_in_executor", run_in_executor)
            group_node.restart()
            node.pass_time(1)
            assert group_node.call("committed_shard", "g") == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            [(waiting, read)] = waits
            waiting.set_result(read())
            node.pass_time(0)
        assert group_node.offset() == 5

    def test_offsets_of_topics_deleted_during_a_load_are_deleted_after_it(self, group_node: GroupNode) -> None:
        group_node.host()
        for offset in range(5 * RECORDS_A_TURN):
            group_node.wait(group_node.commit(offset))
        group_node.restart()
        group_node.groups.topics_deleted([("t", b"t" * 16)])
        group_node.node.pass_time(0)
        assert group_node.call("committed_shard", "g") == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        group_node.node.pass_time(1)
        assert group_node.offset() is None
        assert group_node.records()[-1] == "offset g t-0 deleted"

    def test_groups_are_served_after_deletion_of_topic_offsets_fails(
        self, group_node: GroupNode, caplog: pytest.LogCaptureFixture
    ) -> None:
        group_node.host()
        group_node.wait(group_node.commit(5))
        group_node.restart()
        group_node.groups.topics_deleted([("t", b"t" * 16)])

        def fail(_: GroupCoordinatorShard, topics: object) -> list[list[context.Record]]:
            raise ValueError(f"a bug in {topics}")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(GroupCoordinatorShard, "forget_topics", fail)
            group_node.settle()
            assert group_node.offset() == 5
            group_node.groups.topics_deleted([("t", b"t" * 16)])
            group_node.settle()
        assert group_node.offset() == 5
        failures = [one for one in caplog.messages if one.endswith("offsets of deleted topics failed")]
        assert len(failures) == 2 * len(group_node.groups.shards())

    def test_undecodable_record_is_skipped_on_load(
        self, group_node: GroupNode, caplog: pytest.LogCaptureFixture
    ) -> None:
        group_node.host()
        index = group_node.groups.runtime.partition_of("g")
        group_node.wait(group_node.commit(5))
        for key, value in [
            (b"\x00\x01broken", b""),
            (b"\x00\x02\x00\x01x", b"\x00\x09"),
            (b"\x00\x03\x00\x01g", b"\x00\x00"),
            (None, b"no key"),
        ]:
            group_node.node.append("__consumer_offsets", (key, value), index=index)
        group_node.wait(group_node.commit(6))
        group_node.restart()
        group_node.settle()
        assert group_node.offset() == 6
        assert caplog.text.count("Skipped record") == 2

    def test_offsets_of_an_open_transaction_stay_invisible(self, group_node: GroupNode) -> None:
        group_node.host()
        index = group_node.groups.runtime.partition_of("g")
        record = offset_record("g", "t", 3, Committed(11, -1, "", 0))
        transactional: dict[str, Any] = {
            "producer_id": 9,
            "producer_epoch": 0,
            "base_sequence": 0,
            "is_transactional": True,
        }
        log = group_node.node.partition("__consumer_offsets", index).log
        self.write(group_node, log, build_batch([record], **transactional))
        group_node.restart()
        group_node.settle()
        assert group_node.offset(partition=3) is None
        assert group_node.groups.shard_of("g").offsets.is_pending(("g", "t", 3))
        marker = Record(0, 0, control_record_key(ControlType.COMMIT), bytes(6), ())
        ends: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "is_control": True, "is_transactional": True}
        self.write(group_node, log, build_batch([marker], **ends))
        group_node.restart()
        group_node.settle()
        assert group_node.offset(partition=3) == 11

    def write(self, group_node: GroupNode, log: Log, batch: bytearray) -> None:
        assign(batch, log.log_end_offset, 0)
        log.append_as_follower(memoryview(batch), 0, group_node.node.now_ms())
        log.update_high_watermark(log.log_end_offset)


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_log_errors_map_to_coordinator_errors(error: ErrorCode, reported: ErrorCode) -> None:
    assert coordinator_error(error) == reported
