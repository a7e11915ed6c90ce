"""Our controller sends brokers that register, hang, stop and restart the same responses as Apache Kafka's.

Intended differences are not tested. A heartbeat of a broker that never registered returns BROKER_ID_NOT_REGISTERED,
not an unknown error as in Kafka. A broker that has just stopped can register again immediately; Kafka rejects it until
its last session ends. A replica that a reassignment removes leaves the ELR; Kafka keeps it there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from protocol.errors import ErrorCode
from tests.oracles.both_controllers import HIGHEST, BothControllers, directory
from tests.oracles.kafka_server import KafkaServer

TWO = {"min.insync.replicas": "2"}
ACTIVE, FENCED, STOPPED = (0, True, False, False), (0, True, True, False), (0, True, True, True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothControllers]:
    kafka = KafkaServer(
        tmp_path_factory.mktemp("controllers") / "kafka",
        {"broker.session.timeout.ms": 8000, "broker.heartbeat.interval.ms": 100},
    )
    try:
        kafka.wait()
        both = BothControllers(kafka)
        yield both
        both.close()
    finally:
        kafka.stop()


@pytest.fixture
def both(server: BothControllers) -> Iterator[BothControllers]:
    """Both controllers; the brokers of a test are fenced after it, so that no later test waits for them."""
    yield server
    server.leave_all()


OTHER_INCARNATION: dict[str, Any] = {"incarnation_id": b"another" + bytes(9)}


class TestRegistration:
    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
            ({"directories": []}, ErrorCode.INVALID_REGISTRATION),
            ({"directories": [bytes(16)]}, ErrorCode.INVALID_REGISTRATION),
            ({"directories": [directory(7), (99).to_bytes(16, "big")]}, ErrorCode.INVALID_REGISTRATION),
            ({"directories": [directory(7), directory(7)]}, ErrorCode.INVALID_REGISTRATION),
            ({"features": {}}, ErrorCode.INVALID_REGISTRATION),
            ({"features": {"metadata.version": (7, HIGHEST)}}, ErrorCode.UNSUPPORTED_VERSION),
            ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ],
    )
    def test_what_cannot_be_is_refused(self, both: BothControllers, fields: dict[str, Any], code: ErrorCode) -> None:
        assert both.register(7, **fields) == code

    @pytest.mark.parametrize("levels", [(7, 29), (HIGHEST, HIGHEST)])
    def test_supported_features_must_include_the_finalized_levels(
        self, both: BothControllers, levels: tuple[int, int]
    ) -> None:
        code = both.register(7, features=both.features | {"metadata.version": levels})
        assert code == ErrorCode.UNSUPPORTED_VERSION

    def test_feature_that_is_not_finalized_must_support_level_0(self, both: BothControllers) -> None:
        code = both.register(7, features=both.features | {"unheard.of": (1, 2)})
        assert code == ErrorCode.UNSUPPORTED_VERSION

    def test_directory_id_belongs_to_one_broker(self, both: BothControllers) -> None:
        [taken] = both.join(1)
        assert both.register(7, directories=[directory(taken)]) == ErrorCode.INVALID_REGISTRATION

    def test_broker_id_is_taken_while_its_owner_is_active(self, both: BothControllers) -> None:
        [taken] = both.join(1)
        assert both.register(taken, **OTHER_INCARNATION) == ErrorCode.DUPLICATE_BROKER_REGISTRATION

    def test_broker_id_of_a_starting_broker_is_taken(self, both: BothControllers) -> None:
        assert both.register(taken := both.new_id()) == ErrorCode.NONE
        assert both.beat(taken, lag=1)[2]
        assert both.register(taken, **OTHER_INCARNATION) == ErrorCode.DUPLICATE_BROKER_REGISTRATION

    def test_broker_id_without_a_heartbeat_is_free(self, both: BothControllers) -> None:
        assert both.register(free := both.new_id()) == ErrorCode.NONE
        assert both.register(free, **OTHER_INCARNATION) == ErrorCode.NONE
        assert both.beat(free, epoch=-1)[0] == ErrorCode.STALE_BROKER_EPOCH

    def test_same_incarnation_keeps_its_epoch_and_state(self, both: BothControllers) -> None:
        [known] = both.join(1)
        topic = both.create({0: [known]})
        assert both.register(known, rack="r") == ErrorCode.NONE
        assert both.beat(known) == ACTIVE
        assert both.state(topic)[:3] == (known, 0, [known])


class TestHeartbeats:
    def test_a_broker_has_to_catch_up_with_its_registration(self, both: BothControllers) -> None:
        both.register(known := both.new_id())
        assert both.beat(known, lag=1) == (0, False, True, False)
        assert both.beat(known, fence=True) == FENCED
        assert both.beat(known, lag=0) == ACTIVE

    @pytest.mark.parametrize("epoch", [-1, 1])
    def test_another_epoch_is_stale(self, both: BothControllers, epoch: int) -> None:
        [known] = both.join(1)
        assert both.beat(known, epoch=epoch)[0] == ErrorCode.STALE_BROKER_EPOCH

    def test_a_fenced_broker_may_stop(self, both: BothControllers) -> None:
        [known] = both.join(1)
        both.beat(known, fence=True)
        assert both.beat(known, stop=True) == STOPPED

    def test_broker_without_leaderships_may_shut_down(self, both: BothControllers) -> None:
        first, second = both.join(2)
        topic = both.create({0: [first, second]})
        assert both.beat(second, stop=True) == STOPPED
        assert both.state(topic)[:3] == (first, 0, [first])

    def test_broker_with_want_fence_and_want_shut_down_may_shut_down(self, both: BothControllers) -> None:
        first, second = both.join(2)
        topic = both.create({0: [first, second]})
        assert both.beat(first, stop=True, fence=True) == STOPPED
        assert both.state(topic)[:3] == (second, 1, [second])

    def test_leader_shuts_down_when_its_followers_applied_the_leader_changes(self, both: BothControllers) -> None:
        first, second, third = both.join(3)
        topic = both.create({0: [first, second, third], 1: [second, first, third]})
        assert both.beat(third) == ACTIVE
        assert both.beat(second, lag=0) == ACTIVE
        assert both.beat(first, stop=True) == ACTIVE
        assert both.state(topic)[:3] == (second, 1, [second, third])
        assert both.state(topic, 1)[:3] == (second, 0, [second, third])
        assert both.beat(first, stop=True) == ACTIVE
        assert both.beat(second) == ACTIVE
        assert both.beat(first, stop=True) == STOPPED
        assert both.beat(first, stop=True) == STOPPED

    def test_offline_directory_id_of_another_broker_changes_nothing(self, both: BothControllers) -> None:
        [other] = both.join(1)
        [known] = both.join(1, directories=[directory(5000), directory(5000, 1)])
        topic = both.create({0: [known, other]})
        assert both.beat(known, offline=[directory(other)]) == ACTIVE
        assert both.state(topic)[:3] == (known, 0, [other, known])


class TestPartitions:
    """Partitions whose brokers are fenced and return, with eligible leader replicas."""

    @pytest.fixture
    def ids(self, both: BothControllers) -> list[int]:
        return both.join(3)

    def test_last_in_sync_replica_is_in_the_elr(self, both: BothControllers, ids: list[int]) -> None:
        first, second, _ = ids
        topic = both.create({0: [first, second]}, **{"min.insync.replicas": "2"})
        both.beat(first, fence=True)
        assert both.state(topic) == (second, 1, [second], [first], [])
        both.beat(second, fence=True)
        assert both.state(topic)[2:4] == ([], sorted([first, second]))
        both.beat(first)
        assert both.state(topic)[0] == first

    def test_returning_broker_is_eligible_only_after_a_clean_shutdown(self, both: BothControllers) -> None:
        clean, unclean, alone, other = both.join(4)
        two = {"min.insync.replicas": "2"}
        kept, lost = both.create({0: [clean, other]}, **two), both.create({0: [unclean, other]}, **two)
        own = both.create({0: [alone]})
        for broker_id in (clean, unclean, alone):
            both.beat(broker_id, fence=True)
        assert both.state(own)[2:] == ([], [alone], [alone])
        both.register(clean, previous=True, **OTHER_INCARNATION)
        both.register(unclean, **OTHER_INCARNATION)
        both.register(alone, **OTHER_INCARNATION)
        assert both.state(kept)[2:4] == ([other], [clean])
        assert both.state(lost)[2:4] == ([other], [])
        assert both.state(own)[2:] == ([], [], [alone])
        both.beat(alone)
        assert both.state(own)[:3] == (alone, 2, [alone])

    def test_unregistered_broker_leaves_every_isr(self, both: BothControllers, ids: list[int]) -> None:
        first, second, _ = ids
        topic = both.create({0: [first, second]})
        assert both.unregister(first) == ErrorCode.NONE
        assert both.unregister(first) == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert both.state(topic)[:3] == (second, 1, [second])

    def test_unregistered_broker_stays_in_the_elr_until_it_registers_again(
        self, both: BothControllers, ids: list[int]
    ) -> None:
        first, second, third = ids
        topic = both.create({0: [first, second, third]}, **TWO)
        both.beat(first, fence=True)
        both.beat(second, fence=True)
        assert both.state(topic)[2:4] == ([third], [second])
        assert both.unregister(second) == ErrorCode.NONE
        assert both.state(topic)[2:4] == ([third], [second])
        assert both.unregister(third) == ErrorCode.NONE
        assert both.state(topic) == (-1, 3, [], [second, third], [third])
        for broker_id in (second, third):
            assert both.register(broker_id, **OTHER_INCARNATION) == ErrorCode.NONE
        assert both.state(topic)[2:4] == ([], [])


class TestReassignments:
    """Reassigned partitions, with eligible leader replicas."""

    @pytest.fixture
    def ids(self, both: BothControllers) -> list[int]:
        return both.join(4)

    def test_reassignment_completes_when_the_new_replicas_are_in_sync(
        self, both: BothControllers, ids: list[int]
    ) -> None:
        first, second, third, fourth = ids
        topic = both.create({0: [first, second]})
        assert both.reassign(topic, [third, fourth]) == ErrorCode.NONE
        assert both.assignment(topic) == ([third, fourth, first, second], [third, fourth], [first, second])
        assert both.state(topic)[:3] == (first, 0, [first, second])
        assert both.alter_isr(topic, [first, second, third]) == ErrorCode.NONE
        assert both.alter_isr(topic, ids) == ErrorCode.NEW_LEADER_ELECTED
        assert both.assignment(topic) == ([third, fourth], [], [])
        assert both.state(topic)[:3] == (third, 1, [third, fourth])

    def test_cancelling_returns_to_the_old_replicas(self, both: BothControllers, ids: list[int]) -> None:
        first, second, third, fourth = ids
        topic = both.create({0: [first, second]})
        assert both.reassign(topic, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert both.reassign(topic, [fourth, third]) == ErrorCode.NONE
        assert both.alter_isr(topic, [first, third]) == ErrorCode.NONE
        assert both.reassign(topic, None) == ErrorCode.NONE
        assert both.assignment(topic) == ([first, second], [], [])
        assert both.state(topic)[:3] == (first, 1, [first])

    def test_reassignment_waits_for_no_other_replicas_than_those_it_adds(
        self, both: BothControllers, ids: list[int]
    ) -> None:
        first, second, third, _ = ids
        topic = both.create({0: [first, second]})
        assert both.reassign(topic, [second, third]) == ErrorCode.NONE
        assert both.alter_isr(topic, [first, third]) == ErrorCode.NEW_LEADER_ELECTED
        assert both.assignment(topic) == ([second, third], [], [])
        assert both.state(topic)[:3] == (third, 1, [third])

    def test_reassignment_keeps_the_elr(self, both: BothControllers, ids: list[int]) -> None:
        first, second, third, fourth = ids
        topic = both.create({0: [first, second, third]}, **TWO)
        both.beat(third, fence=True)
        both.beat(second, fence=True)
        assert both.state(topic)[2:4] == ([first], [second])
        assert both.reassign(topic, [second, first, fourth]) == ErrorCode.NONE
        assert both.state(topic)[2:4] == ([first], [second])
        both.beat(first, fence=True)
        assert both.state(topic)[2:4] == ([], [first, second])
        # Its ISR is empty: an eligible replica leads.
        both.beat(second)
        assert both.state(topic)[2:4] == ([second], [first])
        assert both.reassign(topic, None) == ErrorCode.NONE
        assert both.state(topic)[2:4] == ([second], [first])
        assert both.assignment(topic)[1:] == ([], [])

    def test_completed_reassignment_clears_the_elr(self, both: BothControllers, ids: list[int]) -> None:
        first, second, third, _ = ids
        topic = both.create({0: [first, second]}, **TWO)
        both.beat(second, fence=True)
        assert both.state(topic)[2:4] == ([first], [second])
        assert both.reassign(topic, [first, third]) == ErrorCode.NONE
        assert both.alter_isr(topic, [first, third]) == ErrorCode.NONE
        assert both.assignment(topic) == ([first, third], [], [])
        assert both.state(topic)[2:4] == ([first, third], [])

    @pytest.mark.parametrize("unclean", ["false", "true"])
    def test_cancellation_elects_an_unclean_leader_if_the_config_allows_it(
        self, both: BothControllers, ids: list[int], unclean: str
    ) -> None:
        first, _, third, fourth = ids
        topic = both.create({0: [first]}, **{"unclean.leader.election.enable": unclean})
        assert both.reassign(topic, [third, fourth]) == ErrorCode.NONE
        assert both.alter_isr(topic, [first, third]) == ErrorCode.NONE
        both.beat(first, fence=True)
        assert both.state(topic)[:3] == (third, 1, [third])
        both.beat(first)
        if unclean == "true":
            assert both.reassign(topic, None) == ErrorCode.NONE
            assert both.state(topic)[:4] == (first, 2, [first], [])
        else:
            assert both.reassign(topic, None) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert both.state(topic)[:4] == (third, 1, [third], [])

    @pytest.mark.parametrize("target", [[1, 2, 0, 3], [2, 1], [0, 3], [3, 2], [3, 1, 2], [3]])
    def test_reassignments_of_three_replicas(self, both: BothControllers, ids: list[int], target: list[int]) -> None:
        for in_sync in (1, 2, 3):
            topic = both.create({0: ids[:3]}, **TWO)
            assert both.alter_isr(topic, ids[:in_sync]) == ErrorCode.NONE
            assert both.reassign(topic, [ids[at] for at in target]) == ErrorCode.NONE
            both.assignment(topic)
            both.state(topic)


class TestProducerIds:
    def test_registered_broker_gets_1000_producer_ids(self, both: BothControllers) -> None:
        [known] = both.join(1)
        assert both.allocate(known) == (0, 1000)

    @pytest.mark.parametrize("epoch", [-1, 1])
    def test_another_epoch_is_stale(self, both: BothControllers, epoch: int) -> None:
        [known] = both.join(1)
        assert both.allocate(known, epoch) == (ErrorCode.STALE_BROKER_EPOCH, 0)

    def test_unknown_broker_is_stale(self, both: BothControllers) -> None:
        assert both.allocate(9) == (ErrorCode.STALE_BROKER_EPOCH, 0)
