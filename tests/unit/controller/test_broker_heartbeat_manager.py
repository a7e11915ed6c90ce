"""Broker sessions, fencing and controlled shutdown."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest

from controller.broker_heartbeat_manager import BrokerHeartbeatManager
from controller.commands.brokers import fence_brokers
from controller.commands.heartbeats import broker_heartbeat
from controller.image import Endpoint
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.unit.controller.cluster import Cluster

SESSION, GRACE = 9000, 300


class Controller(Cluster):
    """A cluster whose active controller receives heartbeats at the time `now`."""

    def __init__(self, brokers: int = 3) -> None:
        super().__init__(brokers=brokers)
        self.now = 1000
        self.liveness = BrokerHeartbeatManager(SESSION, GRACE)
        self.liveness.lead(self.image, self.now)

    def hear(self, *broker_ids: int, connection: str | None = "", offset: int | None = None) -> None:
        """Receive a heartbeat of each broker, each on its own connection unless `connection` names one."""
        for broker_id in broker_ids:
            self.liveness.heard_from(
                broker_id,
                self.image.brokers[broker_id].epoch,
                self.image.offset if offset is None else offset,
                f"c{broker_id}" if connection == "" else connection,
                self.now,
            )

    def claim(self, broker_id: int, endpoints: Mapping[str, Endpoint] | None = None) -> None:
        """Receive a registration of another process with this broker id, by default with the same endpoints."""
        self.liveness.claimed(broker_id, endpoints or self.image.brokers[broker_id].endpoints, self.now)

    def look(self) -> list[int]:
        """Advance to the next session deadline, fence the expired brokers, and return them."""
        assert self.liveness.due_ms is not None
        self.now = max(self.now, self.liveness.due_ms)
        expired = self.liveness.expired(self.now)
        self.apply(lambda image: fence_brokers(image, expired, self.settings))
        self.commit()
        return sorted(expired)

    def commit(self) -> None:
        self.liveness.apply(self.image, self.now)

    def stop(self, broker_id: int) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.image.brokers[broker_id].epoch,
            current_metadata_offset=self.image.offset,
            want_fence=False,
            want_shut_down=True,
        )
        self.apply(partial(broker_heartbeat, request=request, settings=self.settings))
        self.commit()


def test_a_broker_that_is_not_heard_is_gone_after_the_session() -> None:
    controller = Controller()
    controller.now += 5000
    controller.hear(1, 3)
    assert controller.look() == [2]
    assert controller.now == 1000 + SESSION
    assert not controller.image.brokers[2].active
    assert controller.look() == [1, 3]
    assert controller.now == 6000 + SESSION
    assert controller.liveness.due_ms is None


def test_a_session_lasts_to_its_last_millisecond() -> None:
    controller = Controller(brokers=1)
    assert controller.liveness.expired(999 + SESSION) == {}
    assert controller.liveness.alive(1000 + SESSION) == {1}
    assert controller.liveness.expired(1000 + SESSION) == {1: controller.image.brokers[1].epoch}
    assert controller.liveness.alive(1000 + SESSION) == set()


def test_one_whose_connection_broke_is_gone_after_the_grace() -> None:
    controller = Controller()
    controller.hear(1, 2, 3)
    controller.liveness.connection_lost("c2", controller.now)
    assert controller.look() == [2]
    assert controller.now == 1000 + GRACE


def test_one_whose_process_has_ended_gets_no_grace() -> None:
    controller = Controller()
    controller.hear(1, 2, 3)
    [alone] = controller.liveness.connection_lost("c2", controller.now)
    assert alone.broker_id == 2
    controller.now += 20
    controller.liveness.ended(2, alone.epoch, controller.now)
    assert controller.look() == [2]
    assert controller.now == 1020


def test_one_that_was_heard_since_its_process_seemed_to_have_ended_lives_on() -> None:
    controller = Controller()
    controller.hear(1, 2, 3)
    [alone] = controller.liveness.connection_lost("c2", controller.now)
    controller.hear(2, connection="again")
    controller.liveness.ended(2, alone.epoch, controller.now)
    assert controller.liveness.expired(controller.now) == {}


def test_the_end_of_an_earlier_run_does_not_end_this_one() -> None:
    controller = Controller()
    controller.hear(1, 2, 3)
    controller.liveness.connection_lost("c2", controller.now)
    controller.liveness.ended(2, controller.image.brokers[2].epoch - 1, controller.now)
    assert controller.liveness.expired(controller.now) == {}


def test_who_has_another_connection_is_not_alone_when_one_breaks() -> None:
    controller = Controller()
    controller.hear(2, connection="first")
    controller.hear(2, connection="second")
    assert controller.liveness.connection_lost("first", controller.now) == []


def test_one_that_comes_back_within_the_grace_lives_on() -> None:
    controller = Controller(brokers=1)
    controller.hear(1)
    controller.liveness.connection_lost("c1", controller.now)
    controller.now += GRACE - 1
    controller.hear(1, connection="another")
    assert controller.look() == [1]
    assert controller.now == 999 + GRACE + SESSION


def test_a_connection_that_breaks_behind_its_successor_means_nothing() -> None:
    controller = Controller(brokers=1)
    controller.hear(1)
    controller.hear(1, connection="another")
    controller.liveness.connection_lost("c1", controller.now)
    assert controller.liveness.due_ms == 1000 + SESSION
    controller.liveness.connection_lost("another", controller.now)
    assert controller.liveness.due_ms == 1000 + GRACE


def test_connections_of_clients_mean_nothing() -> None:
    controller = Controller(brokers=1)
    controller.hear(1)
    controller.liveness.connection_lost("a client's", controller.now)
    assert controller.liveness.due_ms == 1000 + SESSION


def test_a_broken_connection_does_not_lengthen_a_session() -> None:
    controller = Controller(brokers=1)
    controller.hear(1)
    controller.liveness.connection_lost("c1", 1000 + SESSION - 1)
    assert controller.liveness.due_ms == 1000 + SESSION


def test_a_new_active_controller_gives_everybody_a_session() -> None:
    controller = Controller(brokers=2)
    controller.hear(1, 2)
    controller.liveness.connection_lost("c1", controller.now)
    controller.now += 200
    controller.liveness.lead(controller.image, controller.now)
    assert controller.liveness.due_ms == 1200 + SESSION
    controller.liveness.connection_lost("c2", controller.now)
    assert controller.liveness.due_ms == 1200 + SESSION


def test_but_not_to_whom_the_quorum_could_not_reach_before() -> None:
    controller = Controller()
    controller.now += 250
    controller.liveness.lead(controller.image, controller.now)
    controller.hear(3)
    controller.liveness.unreachable(2, 1000)
    controller.liveness.unreachable(3, 1000)
    controller.liveness.unreachable(9, 1000)
    assert controller.look() == [2]
    assert controller.now == 1000 + GRACE


def test_who_is_not_heard_by_a_new_active_controller_loses_its_id_after_the_grace_once_another_claims_it() -> None:
    controller = Controller()
    controller.now += 100
    controller.hear(2)
    for broker_id in (1, 2):
        controller.claim(broker_id)
    controller.now += GRACE
    assert controller.liveness.alive(controller.now) == {1, 2, 3}
    controller.now += 1
    assert controller.liveness.alive(controller.now) == {2, 3}


def test_who_listens_elsewhere_claims_nobodys_id() -> None:
    controller = Controller()
    controller.claim(1, {"PLAINTEXT": Endpoint("host1", 9093)})
    assert controller.liveness.alive(controller.now + SESSION) == {1, 2, 3}


def test_who_registered_with_this_controller_keeps_its_id() -> None:
    controller = Controller()
    controller.add_broker(4)
    controller.commit()
    controller.claim(4)
    assert controller.liveness.alive(controller.now + SESSION) == {1, 2, 3, 4}


def test_an_earlier_registration_is_heard_no_more() -> None:
    controller = Controller(brokers=1)
    controller.hear(1)
    old = controller.image.brokers[1].epoch
    controller.add_broker(1)
    controller.commit()
    controller.now += 1000
    controller.liveness.heard_from(1, old, 99, "c1", controller.now)
    controller.liveness.connection_lost("c1", controller.now)
    assert controller.liveness.due_ms == 1000 + SESSION


def test_who_starts_is_alive_from_its_first_heartbeat_on() -> None:
    controller = Controller(brokers=0)
    controller.add_broker(1, fenced=True)
    controller.commit()
    assert controller.liveness.alive(controller.now) == set()
    controller.hear(1)
    assert controller.liveness.alive(controller.now + SESSION) == {1}
    assert controller.liveness.alive(controller.now + SESSION + 1) == set()
    controller.liveness.connection_lost("c1", controller.now)
    assert controller.liveness.alive(controller.now + GRACE + 1) == set()


def test_who_has_stopped_can_start_again_at_once() -> None:
    controller = Controller(brokers=1)
    controller.hear(1)
    controller.stop(1)
    assert controller.image.brokers[1].fenced
    assert controller.liveness.alive(controller.now) == set()
    controller.hear(1)
    assert controller.liveness.alive(controller.now) == {1}


def test_fenced_brokers_are_neither_due_nor_alive_until_they_are_heard_again() -> None:
    controller = Controller(brokers=1)
    epoch = controller.add_broker(2, fenced=True)
    controller.commit()
    assert controller.look() == [1]
    assert controller.liveness.alive(controller.now) == set()
    assert controller.liveness.expired(controller.now + 10 * SESSION) == {}
    controller.hear(2)
    request = BrokerHeartbeatRequest(
        broker_id=2, broker_epoch=epoch, current_metadata_offset=99, want_fence=False, want_shut_down=False
    )
    controller.apply(partial(broker_heartbeat, request=request, settings=controller.settings))
    controller.commit()
    assert controller.liveness.alive(controller.now) == {2}
    assert controller.liveness.due_ms == controller.now + SESSION


def test_who_is_gone_is_told_again_until_it_is_fenced() -> None:
    controller = Controller(brokers=1)
    gone = {1: controller.image.brokers[1].epoch}
    due = 1000 + SESSION
    assert controller.liveness.expired(due) == gone
    assert controller.liveness.expired(due + GRACE - 1) == {}
    assert controller.liveness.alive(due + 1) == set()
    assert controller.liveness.expired(due + GRACE) == gone


def test_who_is_heard_after_all_is_not_told_again() -> None:
    controller = Controller(brokers=1)
    controller.liveness.expired(1000 + SESSION)
    controller.now += SESSION + 1
    controller.hear(1)
    assert controller.liveness.alive(controller.now) == {1}
    assert controller.liveness.due_ms == controller.now + SESSION


def test_time_in_which_the_controller_stood_still_does_not_count() -> None:
    controller = Controller(brokers=2)
    controller.now += 2000
    controller.hear(1, 2)
    stands = controller.now + 500
    assert controller.liveness.expired(stands) == {}
    woken = stands + 60_000
    assert controller.liveness.expired(woken) == {}
    assert controller.liveness.due_ms is not None
    assert woken < controller.liveness.due_ms <= 3000 + SESSION + 60_500
    assert controller.liveness.expired(controller.liveness.due_ms) == {
        broker_id: broker.epoch for broker_id, broker in controller.image.brokers.items()
    }


def test_nor_does_it_if_a_heartbeat_is_read_before_anybody_looks() -> None:
    controller = Controller(brokers=2)
    controller.hear(1, 2)
    controller.now += 60_000
    controller.hear(1)
    assert controller.liveness.expired(controller.now) == {}
    assert controller.liveness.due_ms == controller.now + SESSION


@pytest.mark.parametrize("grace", [0, GRACE])
def test_a_timer_that_is_a_little_late_is_no_reason_to_wait(grace: int) -> None:
    liveness = BrokerHeartbeatManager(SESSION, grace)
    image = Cluster(brokers=1).image
    liveness.lead(image, 0)
    assert liveness.expired(SESSION + 200) == {1: image.brokers[1].epoch}


def test_a_forgotten_broker_is_due_no_more() -> None:
    controller = Controller(brokers=1)
    controller.hear(1)
    controller.replay([])
    cluster = Cluster(brokers=0)
    controller.liveness.apply(cluster.image, controller.now)
    assert controller.liveness.due_ms is None
    controller.liveness.connection_lost("c1", controller.now)
    assert not controller.liveness.may_stop(1)


@pytest.fixture
def stopping() -> Controller:
    """Three brokers; broker 1 requested a controlled shutdown, and broker 2 has applied the record of it."""
    controller = Controller()
    controller.create("t", assignments={0: [1, 2, 3]})
    controller.hear(1, 2, 3)
    controller.stop(1)
    assert not controller.liveness.may_stop(1)
    controller.hear(2)
    return controller


def test_a_broker_may_stop_when_all_active_ones_know_what_moved(stopping: Controller) -> None:
    assert not stopping.liveness.may_stop(1)
    stopping.hear(3)
    assert stopping.liveness.may_stop(1)


def test_the_offset_that_counts_is_that_of_the_move(stopping: Controller) -> None:
    moved = stopping.image.offset
    stopping.create("u")
    stopping.commit()
    stopping.hear(3, offset=moved - 1)
    assert not stopping.liveness.may_stop(1)
    stopping.hear(3, offset=moved)
    assert stopping.liveness.may_stop(1)


def test_those_that_are_fenced_or_stop_too_are_not_waited_for(stopping: Controller) -> None:
    stopping.apply(lambda image: fence_brokers(image, {3: image.brokers[3].epoch}, stopping.settings))
    stopping.commit()
    assert stopping.liveness.may_stop(1)
    stopping.stop(2)
    assert stopping.liveness.may_stop(1)


def test_a_new_active_controller_asks_for_what_it_has_itself(stopping: Controller) -> None:
    stopping.hear(3)
    stopping.liveness.lead(stopping.image, stopping.now)
    assert not stopping.liveness.may_stop(1)
    stopping.hear(2, 3)
    assert stopping.liveness.may_stop(1)


@pytest.mark.parametrize("broker_id", [2, 9])
def test_nobody_else_may_stop(stopping: Controller, broker_id: int) -> None:
    stopping.hear(3)
    assert not stopping.liveness.may_stop(broker_id)


def test_something_is_known_when_every_active_broker_has_applied_it() -> None:
    controller = Controller()
    offset = controller.image.offset
    controller.hear(1, 2, offset=offset)
    assert not controller.liveness.all_know(offset)
    assert controller.liveness.all_know(offset, but=3)
    controller.hear(3, offset=offset - 1)
    assert not controller.liveness.all_know(offset)
    assert controller.liveness.all_know(offset - 1)
    controller.hear(3, offset=offset)
    assert controller.liveness.all_know(offset)
    assert not controller.liveness.all_know(offset + 1)


def test_who_is_fenced_needs_to_know_nothing() -> None:
    controller = Controller()
    offset = controller.image.offset
    controller.now += SESSION // 2
    controller.hear(1, 2, offset=offset)
    assert controller.look() == [3]
    assert controller.liveness.all_know(offset)
