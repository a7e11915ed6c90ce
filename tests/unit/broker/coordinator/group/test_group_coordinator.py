from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.coordinator.group.context import Leaving
from broker.coordinator.runtime.context import Record
from broker.coordinator.runtime.partition_journal import PartitionJournal
from controller.topic_names import CONSUMER_OFFSETS
from protocol.errors import ErrorCode, InvariantError, KafkaError
from tests.unit.broker.conftest import NewNode
from tests.unit.broker.group_node import PRODUCER, GroupNode, pending

DAY_S = 86_400


@pytest.fixture
def patient(new_node: NewNode) -> GroupNode:
    """Return a node with an initial rebalance delay of 3 s, which coordinates groups."""
    node = new_node(group_initial_rebalance_delay_ms="3000")
    node.start()
    return GroupNode(node).host()


class TestElections:
    def test_groups_of_partitions_led_by_other_brokers_are_not_coordinated(self, group_node: GroupNode) -> None:
        assert group_node.call("committed_shard", "g") == ErrorCode.NOT_COORDINATOR
        assert group_node.groups.heartbeat("g", "m", None, 1) == ErrorCode.NOT_COORDINATOR

    def test_pending_join_fails_with_not_coordinator_when_the_partition_is_lost(self, patient: GroupNode) -> None:
        outcome = patient.join()
        patient.node.elect(CONSUMER_OFFSETS, 2, index=patient.groups.runtime.partition_of("g"))
        assert patient.wait(outcome).error == ErrorCode.NOT_COORDINATOR
        assert patient.call("committed_shard", "g") == ErrorCode.NOT_COORDINATOR

    def test_a_new_epoch_of_the_same_leader_keeps_the_groups(self, group_node: GroupNode) -> None:
        group_node.host()
        member = group_node.stable_member()
        index = group_node.groups.runtime.partition_of("g")
        group_node.node.elect(CONSUMER_OFFSETS, 1, index=index)
        assert group_node.groups.heartbeat("g", member, None, 1) == ErrorCode.NONE

    def test_partition_is_loaded_again_after_re_election(self, group_node: GroupNode) -> None:
        group_node.host()
        member = group_node.stable_member()
        index = group_node.groups.runtime.partition_of("g")
        group_node.node.elect(CONSUMER_OFFSETS, 2, index=index)
        group_node.node.elect(CONSUMER_OFFSETS, 1, index=index)
        group_node.settle()
        assert group_node.groups.heartbeat("g", member, None, 1) == ErrorCode.NONE

    def test_a_partition_that_is_lost_while_it_loads_is_not_served(self, group_node: GroupNode) -> None:
        group_node.host()
        group_node.wait(group_node.commit(5))
        group_node.restart()
        group_node.node.elect(CONSUMER_OFFSETS, 2, index=group_node.groups.runtime.partition_of("g"))
        group_node.settle()
        assert group_node.call("committed_shard", "g") == ErrorCode.NOT_COORDINATOR

    def test_groups_of_a_damaged_partition_return_an_error_until_loaded(self, group_node: GroupNode) -> None:
        group_node.host()
        group_node.wait(group_node.commit(5))
        index = group_node.groups.runtime.partition_of("g")
        [file] = Path(group_node.node.partition(CONSUMER_OFFSETS, index).log.directory).glob("*.log")
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        group_node.restart()
        group_node.settle()
        with pytest.raises(KafkaError, match=f"s-{index} cannot be loaded: .* offset 0 is damaged") as no:
            group_node.groups.shard_of("g")
        assert no.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert list(group_node.groups.runtime.failures) == [index]
        file.write_bytes(whole)
        group_node.node.elect(CONSUMER_OFFSETS, 1, index=index)
        group_node.settle()
        assert list(group_node.groups.shard_of("g").groups) == ["g"]
        assert group_node.groups.runtime.failures == {}

    def test_listing_fails_while_partitions_load(self, group_node: GroupNode) -> None:
        group_node.host()
        group_node.wait(group_node.commit(5))
        group_node.restart()
        assert group_node.call("shards") == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        group_node.settle()
        assert [name for shard in group_node.groups.shards() for name in shard.groups] == ["g"]

    def test_stop_fails_pending_requests_with_not_coordinator(self, patient: GroupNode) -> None:
        outcome = patient.join()
        patient.groups.runtime.stop()
        assert patient.wait(outcome).error == ErrorCode.NOT_COORDINATOR


class TestTime:
    def test_first_generation_waits_for_the_initial_rebalance_delay(self, patient: GroupNode) -> None:
        outcome = patient.join()
        patient.node.pass_time(2.9)
        assert pending(outcome)
        patient.node.pass_time(0.2)
        assert patient.wait(outcome).generation == 1

    def test_member_without_heartbeats_is_removed_after_its_session_timeout(self, group_node: GroupNode) -> None:
        group_node.host()
        member = group_node.stable_member()
        group_node.node.pass_time(9.9)
        assert group_node.state() == "Stable"
        group_node.node.pass_time(0.2)
        assert group_node.state() == "Empty"
        assert group_node.groups.heartbeat("g", member, None, 1) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_sessions_that_expire_together_are_handled_in_several_loop_iterations(self, group_node: GroupNode) -> None:
        group_node.host()
        total = 350
        for number in range(total):
            group_node.stable_member(f"g{number}")
        left: list[int] = []

        async def watch() -> None:
            await asyncio.sleep(10.0)
            while not left or left[-1]:
                groups = [group for shard in group_node.groups.shards() for group in shard.groups.values()]
                left.append(sum(group.state == "Stable" for group in groups))
                await asyncio.sleep(0)

        group_node.node.loop.run_until_complete(watch())
        assert [one for one in dict.fromkeys(left) if one < total] == [250, 150, 50, 0]

    @pytest.mark.parametrize("error", [ValueError, InvariantError])
    def test_an_exception_in_one_group_does_not_stop_the_timers_of_the_others(
        self, group_node: GroupNode, caplog: pytest.LogCaptureFixture, error: type[Exception]
    ) -> None:
        group_node.host()
        group_node.stable_member("first")
        group_node.node.pass_time(1)
        group_node.stable_member("second")
        to_the_loop: list[dict[str, Any]] = []
        group_node.node.loop.set_exception_handler(lambda _, context: to_the_loop.append(context))

        def fail(_: PartitionJournal, records: list[Record]) -> int:
            raise error(f"a bug, {len(records)} lost")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PartitionJournal, "append", fail)
            group_node.node.pass_time(9.5)
        group_node.node.pass_time(1)
        assert group_node.state("second") == "Empty"
        group_node.stable_member("third")
        group_node.node.pass_time(10.5)
        assert group_node.state("third") == "Empty"
        assert ("the timer SessionTimeout(group_id='first'" in caplog.text) == (error is ValueError)
        assert [type(context["exception"]) for context in to_the_loop] == [InvariantError] * (error is InvariantError)

    def test_heartbeats_and_commits_renew_the_session(self, group_node: GroupNode) -> None:
        group_node.host()
        member = group_node.stable_member()
        for _ in range(5):
            group_node.node.pass_time(6)
            assert group_node.groups.heartbeat("g", member, None, 1) == ErrorCode.NONE
            group_node.node.pass_time(6)
            group_node.wait(group_node.commit(5, member_id=member, generation=1))
        assert group_node.state() == "Stable"

    def test_offsets_and_groups_expire_a_retention_after_the_last_member_left(self, group_node: GroupNode) -> None:
        """Rule 18: one retention after the group became empty, never while the topic is subscribed."""
        group_node.host()
        to_t = b"\x00\x00\x00\x00\x00\x01\x00\x01t"
        member = group_node.stable_member(session_timeout_ms=1_800_000, protocols={"range": to_t})
        group_node.wait(group_node.commit(5, member_id=member, generation=1))
        group_node.wait(group_node.commit(6, "formerly", member_id=member, generation=1))
        for _ in range(8 * 24 * 3):
            group_node.node.pass_time(1_200)
            assert group_node.groups.heartbeat("g", member, None, 1) == ErrorCode.NONE
            group_node.wait(group_node.groups.expire())
        assert (group_node.offset(), group_node.offset("formerly")) == (5, None)
        group_node.wait(group_node.leave(member))
        group_node.node.pass_time(7 * DAY_S - 1)
        group_node.wait(group_node.groups.expire())
        assert group_node.offset() == 5
        group_node.node.pass_time(2)
        group_node.wait(group_node.groups.expire())
        assert group_node.offset() is None
        assert group_node.state() is None
        assert group_node.records()[-2:] == ["offset g t-0 deleted", "group g deleted"]


class TestRequests:
    @pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
    def test_a_session_outside_the_limits_is_refused(self, group_node: GroupNode, session_ms: int) -> None:
        group_node.host()
        assert group_node.join("m", session_timeout_ms=session_ms).error == ErrorCode.INVALID_SESSION_TIMEOUT

    def test_members_need_a_group_with_a_name(self, group_node: GroupNode) -> None:
        group_node.host()
        assert group_node.join(group="").error == ErrorCode.INVALID_GROUP_ID
        assert group_node.sync("m", 1, group="").error == ErrorCode.INVALID_GROUP_ID
        assert group_node.groups.heartbeat("", "m", None, 1) == ErrorCode.INVALID_GROUP_ID
        assert group_node.groups.leave("", [Leaving("m", None, "")]).error == ErrorCode.INVALID_GROUP_ID  # type: ignore[union-attr]  # of a type that is known here
        assert group_node.call("delete_offsets", "", []) == ErrorCode.INVALID_GROUP_ID

    def test_empty_group_id_accepts_commits(self, group_node: GroupNode) -> None:
        group_node.host()
        assert group_node.wait(group_node.commit(5, group="")) == [ErrorCode.NONE]
        assert group_node.offset(group="") == 5

    def test_group_is_stored_in_the_partition_of_its_hash(self, group_node: GroupNode) -> None:
        group_node.host()
        for group in ("g", "h", "i"):
            group_node.wait(group_node.commit(5, group=group))
            assert f"offset {group} t-0 5" in group_node.records(group)


class TestDeletion:
    def test_deleted_group_loses_all_its_offsets(self, group_node: GroupNode) -> None:
        group_node.host()
        group_node.wait(group_node.commit(5))
        group_node.wait(group_node.commit(6, partition=1))
        assert group_node.call("delete_group", "g") == ErrorCode.NONE
        assert group_node.state() is None
        assert group_node.offset() is None
        assert group_node.records()[-3:] == ["offset g t-0 deleted", "offset g t-1 deleted", "group g deleted"]

    def test_group_with_members_is_kept(self, group_node: GroupNode) -> None:
        group_node.host()
        group_node.stable_member()
        assert group_node.call("delete_group", "g") == ErrorCode.NON_EMPTY_GROUP

    def test_unknown_group_cannot_be_deleted(self, group_node: GroupNode) -> None:
        group_node.host()
        assert group_node.call("delete_group", "g") == ErrorCode.GROUP_ID_NOT_FOUND
        with pytest.raises(KafkaError, match="Group g not found"):
            group_node.groups.delete_offsets("g", [])

    def test_offsets_of_a_deleted_topic_are_deleted_but_not_those_of_a_recreated_one(
        self, group_node: GroupNode
    ) -> None:
        group_node.host()
        group_node.wait(group_node.commit(5, "old"))
        group_node.wait(group_node.commit(6, "kept"))
        group_node.groups.topics_deleted([("old", b"1" * 16)])
        group_node.settle()
        assert group_node.offset("old") is None
        assert group_node.offset("kept") == 6


class TestTransactions:
    """Offsets that are committed in transactions."""

    @pytest.mark.parametrize("committed", [True, False])
    def test_offsets_are_visible_from_the_marker_on(self, group_node: GroupNode, committed: bool) -> None:
        group_node.host()
        group_node.commit(5)
        assert group_node.wait(group_node.txn_commit(6)) == [ErrorCode.NONE]
        assert (group_node.offset(), group_node.is_pending()) == (5, True)
        assert group_node.wait(group_node.end_transaction(committed)) is None
        assert (group_node.offset(), group_node.is_pending()) == (6 if committed else 5, False)

    @pytest.mark.parametrize("committed", [True, False])
    def test_rule_17_pending_offsets_outlive_their_coordinator(self, group_node: GroupNode, committed: bool) -> None:
        group_node.host()
        group_node.wait(group_node.txn_commit(6))
        group_node.wait(group_node.txn_commit(7, partition=1))
        group_node.restart()
        assert group_node.call("committed_shard", "g") == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        group_node.settle()
        assert (group_node.offset(), group_node.offset(partition=1)) == (None, None)
        assert group_node.is_pending()
        group_node.wait(group_node.end_transaction(committed))
        for _ in range(2):
            expected = (6, 7) if committed else (None, None)
            assert (group_node.offset(), group_node.offset(partition=1)) == expected
            assert not group_node.is_pending()
            group_node.restart()
            group_node.settle()

    def test_rule_17_commits_and_markers_are_refused_while_the_group_loads(self, group_node: GroupNode) -> None:
        group_node.host()
        group_node.wait(group_node.txn_commit(6))
        group_node.restart()
        with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            group_node.end_transaction()
        group_node.settle()
        group_node.wait(group_node.end_transaction())
        assert group_node.offset() == 6

    def test_marker_answers_once_it_is_replicated(self, group_node: GroupNode) -> None:
        group_node.host(replicated=True)
        committing = group_node.txn_commit(6)
        assert pending(committing)
        group_node.replicate()
        assert group_node.wait(committing) == [ErrorCode.NONE]
        ending = group_node.end_transaction()
        group_node.settle()
        assert pending(ending)
        group_node.replicate()
        assert group_node.wait(ending) is None
        assert group_node.offset() == 6

    def test_rule_29_a_failed_append_of_a_transactional_commit_or_marker(self, group_node: GroupNode) -> None:
        group_node.host(replicated=True, min_isr=2)
        committing = group_node.txn_commit(6)
        group_node.replicate()
        assert group_node.wait(committing) == [ErrorCode.NONE]
        group_node.fail_appends()
        assert group_node.wait(group_node.txn_commit(7)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
            group_node.end_transaction(committed=False)
        assert group_node.is_pending()
        group_node.allow_appends()
        ending = group_node.end_transaction()
        group_node.replicate()
        assert group_node.wait(ending) is None
        assert group_node.offset() == 6

    def test_rule_15_a_fenced_producer_commits_nothing(self, group_node: GroupNode) -> None:
        group_node.host()
        group_node.wait(group_node.txn_commit(6))
        newer = PRODUCER._replace(epoch=1)
        group_node.wait(group_node.end_transaction(committed=False, producer=newer))
        assert group_node.wait(group_node.txn_commit(7)) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert not group_node.is_pending()

    def test_commit_without_a_group_id_is_refused(self, group_node: GroupNode) -> None:
        group_node.host()
        assert group_node.wait(group_node.txn_commit(6, group="")) == ErrorCode.INVALID_GROUP_ID

    def test_marker_of_a_partition_that_cannot_be_loaded_is_to_be_repeated(
        self, group_node: GroupNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        group_node.host()
        group_node.wait(group_node.txn_commit(6))

        def damaged(_journal: PartitionJournal) -> Any:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE)

        with monkeypatch.context() as patched:
            patched.setattr(PartitionJournal, "read", damaged)
            group_node.restart()
            group_node.settle()
        assert group_node.groups.runtime.failures
        with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
            group_node.end_transaction()
