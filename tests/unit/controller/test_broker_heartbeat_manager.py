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
        self.heartbeat_manager = BrokerHeartbeatManager(SESSION, GRACE)
        self.heartbeat_manager.become_active(self.image, self.now)

    def receive_heartbeat(self, *broker_ids: int, connection: str | None = "", offset: int | None = None) -> None:
        """Receive a heartbeat of each broker, each on its own connection unless `connection` names one."""
        for broker_id in broker_ids:
            self.heartbeat_manager.touch(
                broker_id,
                self.image.brokers[broker_id].epoch,
                self.image.offset if offset is None else offset,
                f"c{broker_id}" if connection == "" else connection,
                self.now,
            )

    def claim(
        self, broker_id: int, endpoints: Mapping[str, Endpoint] | None = None, *, started_together: bool = False
    ) -> None:
        """Receive a registration of another process with this broker id, by default with the same endpoints."""
        found = endpoints or self.image.brokers[broker_id].endpoints
        self.heartbeat_manager.registration_attempted(broker_id, found, self.now, started_together=started_together)

    def look(self) -> list[int]:
        """Advance to the next session deadline, fence the expired brokers, and return them."""
        assert self.heartbeat_manager.due_ms is not None
        self.now = max(self.now, self.heartbeat_manager.due_ms)
        expired = self.heartbeat_manager.expired(self.now)
        self.apply(lambda image: fence_brokers(image, expired, self.settings))
        self.commit()
        return sorted(expired)

    def commit(self) -> None:
        self.heartbeat_manager.apply(self.image, self.now)

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


def test_broker_without_heartbeats_expires_after_the_session() -> None:
    controller = Controller()
    controller.now += 5000
    controller.receive_heartbeat(1, 3)
    assert controller.look() == [2]
    assert controller.now == 1000 + SESSION
    assert not controller.image.brokers[2].active
    assert controller.look() == [1, 3]
    assert controller.now == 6000 + SESSION
    assert controller.heartbeat_manager.due_ms is None


def test_a_session_lasts_to_its_last_millisecond() -> None:
    controller = Controller(brokers=1)
    assert controller.heartbeat_manager.expired(999 + SESSION) == {}
    assert controller.heartbeat_manager.alive(1000 + SESSION) == {1}
    assert controller.heartbeat_manager.expired(1000 + SESSION) == {1: controller.image.brokers[1].epoch}
    assert controller.heartbeat_manager.alive(1000 + SESSION) == set()


def test_broker_with_a_lost_connection_expires_after_the_grace() -> None:
    controller = Controller()
    controller.receive_heartbeat(1, 2, 3)
    controller.heartbeat_manager.connection_lost("c2", controller.now)
    assert controller.look() == [2]
    assert controller.now == 1000 + GRACE
    assert (
        controller.heartbeat_manager.end_reason(2)
        == "its connections were lost for barnabas.broker.disconnect.grace.ms"
    )
    assert controller.heartbeat_manager.end_reason(1) == "no heartbeat within broker.session.timeout.ms"


def test_broker_whose_process_exited_expires_without_grace() -> None:
    controller = Controller()
    controller.receive_heartbeat(1, 2, 3)
    [alone] = controller.heartbeat_manager.connection_lost("c2", controller.now)
    assert alone.broker_id == 2
    controller.now += 20
    controller.heartbeat_manager.process_exited(2, alone.epoch, controller.now)
    assert controller.look() == [2]
    assert controller.now == 1020
    assert controller.heartbeat_manager.end_reason(2) == "its connections were lost, and its address refuses new ones"
    controller.receive_heartbeat(2)
    assert controller.heartbeat_manager.end_reason(2) == "no heartbeat within broker.session.timeout.ms"


def test_heartbeat_after_a_reported_exit_keeps_the_broker_alive() -> None:
    controller = Controller()
    controller.receive_heartbeat(1, 2, 3)
    [alone] = controller.heartbeat_manager.connection_lost("c2", controller.now)
    controller.receive_heartbeat(2, connection="again")
    controller.heartbeat_manager.process_exited(2, alone.epoch, controller.now)
    assert controller.heartbeat_manager.expired(controller.now) == {}


def test_exit_of_a_previous_incarnation_is_ignored() -> None:
    controller = Controller()
    controller.receive_heartbeat(1, 2, 3)
    controller.heartbeat_manager.connection_lost("c2", controller.now)
    controller.heartbeat_manager.process_exited(2, controller.image.brokers[2].epoch - 1, controller.now)
    assert controller.heartbeat_manager.expired(controller.now) == {}


def test_broker_with_a_second_connection_survives_the_loss_of_one() -> None:
    controller = Controller()
    controller.receive_heartbeat(2, connection="first")
    controller.receive_heartbeat(2, connection="second")
    assert controller.heartbeat_manager.connection_lost("first", controller.now) == []


def test_heartbeat_within_the_grace_keeps_the_broker_alive() -> None:
    controller = Controller(brokers=1)
    controller.receive_heartbeat(1)
    controller.heartbeat_manager.connection_lost("c1", controller.now)
    controller.now += GRACE - 1
    controller.receive_heartbeat(1, connection="another")
    assert controller.look() == [1]
    assert controller.now == 999 + GRACE + SESSION


def test_loss_of_a_replaced_connection_is_ignored() -> None:
    controller = Controller(brokers=1)
    controller.receive_heartbeat(1)
    controller.receive_heartbeat(1, connection="another")
    controller.heartbeat_manager.connection_lost("c1", controller.now)
    assert controller.heartbeat_manager.due_ms == 1000 + SESSION
    controller.heartbeat_manager.connection_lost("another", controller.now)
    assert controller.heartbeat_manager.due_ms == 1000 + GRACE


def test_loss_of_a_client_connection_is_ignored() -> None:
    controller = Controller(brokers=1)
    controller.receive_heartbeat(1)
    controller.heartbeat_manager.connection_lost("a client's", controller.now)
    assert controller.heartbeat_manager.due_ms == 1000 + SESSION


def test_a_broken_connection_does_not_lengthen_a_session() -> None:
    controller = Controller(brokers=1)
    controller.receive_heartbeat(1)
    controller.heartbeat_manager.connection_lost("c1", 1000 + SESSION - 1)
    assert controller.heartbeat_manager.due_ms == 1000 + SESSION


def test_new_active_controller_gives_each_broker_a_full_session() -> None:
    controller = Controller(brokers=2)
    controller.receive_heartbeat(1, 2)
    controller.heartbeat_manager.connection_lost("c1", controller.now)
    controller.now += 200
    controller.heartbeat_manager.become_active(controller.image, controller.now)
    assert controller.heartbeat_manager.due_ms == 1200 + SESSION
    controller.heartbeat_manager.connection_lost("c2", controller.now)
    assert controller.heartbeat_manager.due_ms == 1200 + SESSION


def test_new_active_controller_gives_no_session_to_unreachable_brokers() -> None:
    controller = Controller()
    controller.now += 250
    controller.heartbeat_manager.become_active(controller.image, controller.now)
    controller.receive_heartbeat(3)
    controller.heartbeat_manager.unreachable(2, 1000)
    controller.heartbeat_manager.unreachable(3, 1000)
    controller.heartbeat_manager.unreachable(9, 1000)
    assert controller.look() == [2]
    assert controller.now == 1000 + GRACE


def test_claimed_id_of_a_broker_silent_to_a_new_controller_is_free_after_the_grace() -> None:
    controller = Controller()
    controller.now += 100
    controller.receive_heartbeat(2)
    for broker_id in (1, 2):
        controller.claim(broker_id)
    controller.now += GRACE
    assert controller.heartbeat_manager.alive(controller.now) == {1, 2, 3}
    controller.now += 1
    assert controller.heartbeat_manager.alive(controller.now) == {2, 3}


def test_registration_with_other_endpoints_does_not_claim_an_id() -> None:
    controller = Controller()
    controller.claim(1, {"PLAINTEXT": Endpoint("host1", 9093)})
    assert controller.heartbeat_manager.alive(controller.now + SESSION) == {1, 2, 3}


def test_claimed_id_of_a_broker_started_together_with_the_controller_is_free_at_once() -> None:
    """All processes of the start are new, whatever their ports."""
    controller = Controller()
    controller.claim(2, {"PLAINTEXT": Endpoint("elsewhere", 1)}, started_together=True)
    assert controller.look() == [2]
    assert controller.now == 1000
    assert 2 not in controller.heartbeat_manager.alive(controller.now)


def test_a_heartbeat_keeps_the_id_of_a_broker_started_together_with_the_controller() -> None:
    controller = Controller()
    controller.receive_heartbeat(2)
    controller.claim(2, started_together=True)
    assert 2 in controller.heartbeat_manager.alive(controller.now + SESSION)


def test_broker_registered_with_this_controller_keeps_its_id() -> None:
    controller = Controller()
    controller.add_broker(4)
    controller.commit()
    controller.claim(4)
    assert controller.heartbeat_manager.alive(controller.now + SESSION) == {1, 2, 3, 4}


def test_heartbeat_of_a_previous_registration_is_ignored() -> None:
    controller = Controller(brokers=1)
    controller.receive_heartbeat(1)
    old = controller.image.brokers[1].epoch
    controller.add_broker(1)
    controller.commit()
    controller.now += 1000
    controller.heartbeat_manager.touch(1, old, 99, "c1", controller.now)
    controller.heartbeat_manager.connection_lost("c1", controller.now)
    assert controller.heartbeat_manager.due_ms == 1000 + SESSION


def test_starting_broker_is_alive_from_its_first_heartbeat() -> None:
    controller = Controller(brokers=0)
    controller.add_broker(1, fenced=True)
    controller.commit()
    assert controller.heartbeat_manager.alive(controller.now) == set()
    controller.receive_heartbeat(1)
    assert controller.heartbeat_manager.alive(controller.now + SESSION) == {1}
    assert controller.heartbeat_manager.alive(controller.now + SESSION + 1) == set()
    controller.heartbeat_manager.connection_lost("c1", controller.now)
    assert controller.heartbeat_manager.alive(controller.now + GRACE + 1) == set()


def test_stopped_broker_can_register_again_immediately() -> None:
    controller = Controller(brokers=1)
    controller.receive_heartbeat(1)
    controller.stop(1)
    assert controller.image.brokers[1].fenced
    assert controller.heartbeat_manager.alive(controller.now) == set()
    controller.receive_heartbeat(1)
    assert controller.heartbeat_manager.alive(controller.now) == {1}


def test_fenced_brokers_have_no_session_until_their_next_heartbeat() -> None:
    controller = Controller(brokers=1)
    epoch = controller.add_broker(2, fenced=True)
    controller.commit()
    assert controller.look() == [1]
    assert controller.heartbeat_manager.alive(controller.now) == set()
    assert controller.heartbeat_manager.expired(controller.now + 10 * SESSION) == {}
    controller.receive_heartbeat(2)
    request = BrokerHeartbeatRequest(
        broker_id=2, broker_epoch=epoch, current_metadata_offset=99, want_fence=False, want_shut_down=False
    )
    controller.apply(partial(broker_heartbeat, request=request, settings=controller.settings))
    controller.commit()
    assert controller.heartbeat_manager.alive(controller.now) == {2}
    assert controller.heartbeat_manager.due_ms == controller.now + SESSION


def test_expired_broker_is_reported_until_it_is_fenced() -> None:
    controller = Controller(brokers=1)
    gone = {1: controller.image.brokers[1].epoch}
    due = 1000 + SESSION
    assert controller.heartbeat_manager.expired(due) == gone
    assert controller.heartbeat_manager.expired(due + GRACE - 1) == {}
    assert controller.heartbeat_manager.alive(due + 1) == set()
    assert controller.heartbeat_manager.expired(due + GRACE) == gone


def test_expired_broker_with_a_late_heartbeat_is_not_reported_again() -> None:
    controller = Controller(brokers=1)
    controller.heartbeat_manager.expired(1000 + SESSION)
    controller.now += SESSION + 1
    controller.receive_heartbeat(1)
    assert controller.heartbeat_manager.alive(controller.now) == {1}
    assert controller.heartbeat_manager.due_ms == controller.now + SESSION


def test_controller_stall_extends_all_sessions() -> None:
    controller = Controller(brokers=2)
    controller.now += 2000
    controller.receive_heartbeat(1, 2)
    stands = controller.now + 500
    assert controller.heartbeat_manager.expired(stands) == {}
    woken = stands + 60_000
    assert controller.heartbeat_manager.expired(woken) == {}
    assert controller.heartbeat_manager.due_ms is not None
    assert woken < controller.heartbeat_manager.due_ms <= 3000 + SESSION + 60_500
    assert controller.heartbeat_manager.expired(controller.heartbeat_manager.due_ms) == {
        broker_id: broker.epoch for broker_id, broker in controller.image.brokers.items()
    }


def test_controller_stall_extends_sessions_if_a_heartbeat_comes_before_the_check() -> None:
    controller = Controller(brokers=2)
    controller.receive_heartbeat(1, 2)
    controller.now += 60_000
    controller.receive_heartbeat(1)
    assert controller.heartbeat_manager.expired(controller.now) == {}
    assert controller.heartbeat_manager.due_ms == controller.now + SESSION


@pytest.mark.parametrize("grace", [0, GRACE])
def test_slightly_late_timer_does_not_extend_sessions(grace: int) -> None:
    heartbeat_manager = BrokerHeartbeatManager(SESSION, grace)
    image = Cluster(brokers=1).image
    heartbeat_manager.become_active(image, 0)
    assert heartbeat_manager.expired(SESSION + 200) == {1: image.brokers[1].epoch}


def test_unregistered_broker_has_no_session() -> None:
    controller = Controller(brokers=1)
    controller.receive_heartbeat(1)
    controller.replay([])
    cluster = Cluster(brokers=0)
    controller.heartbeat_manager.apply(cluster.image, controller.now)
    assert controller.heartbeat_manager.due_ms is None
    controller.heartbeat_manager.connection_lost("c1", controller.now)
    assert not controller.heartbeat_manager.may_stop(1)


@pytest.fixture
def stopping() -> Controller:
    """Three brokers; broker 1 requested a controlled shutdown, and broker 2 has applied the record of it."""
    controller = Controller()
    controller.create("t", assignments={0: [1, 2, 3]})
    controller.receive_heartbeat(1, 2, 3)
    controller.stop(1)
    assert not controller.heartbeat_manager.may_stop(1)
    controller.receive_heartbeat(2)
    return controller


def test_broker_may_shut_down_once_all_active_brokers_applied_the_leader_changes(stopping: Controller) -> None:
    assert not stopping.heartbeat_manager.may_stop(1)
    stopping.receive_heartbeat(3)
    assert stopping.heartbeat_manager.may_stop(1)


def test_shutdown_waits_for_the_offset_of_the_leader_changes(stopping: Controller) -> None:
    moved = stopping.image.offset
    stopping.create("u")
    stopping.commit()
    stopping.receive_heartbeat(3, offset=moved - 1)
    assert not stopping.heartbeat_manager.may_stop(1)
    stopping.receive_heartbeat(3, offset=moved)
    assert stopping.heartbeat_manager.may_stop(1)


def test_fenced_and_stopping_brokers_do_not_delay_a_shutdown(stopping: Controller) -> None:
    stopping.apply(lambda image: fence_brokers(image, {3: image.brokers[3].epoch}, stopping.settings))
    stopping.commit()
    assert stopping.heartbeat_manager.may_stop(1)
    stopping.stop(2)
    assert stopping.heartbeat_manager.may_stop(1)


def test_new_active_controller_waits_for_its_own_image_offset(stopping: Controller) -> None:
    stopping.receive_heartbeat(3)
    stopping.heartbeat_manager.become_active(stopping.image, stopping.now)
    assert not stopping.heartbeat_manager.may_stop(1)
    stopping.receive_heartbeat(2, 3)
    assert stopping.heartbeat_manager.may_stop(1)


@pytest.mark.parametrize("broker_id", [2, 9])
def test_only_brokers_in_controlled_shutdown_may_stop(stopping: Controller, broker_id: int) -> None:
    stopping.receive_heartbeat(3)
    assert not stopping.heartbeat_manager.may_stop(broker_id)


def test_offset_is_applied_when_every_active_broker_has_reached_it() -> None:
    controller = Controller()
    offset = controller.image.offset
    controller.receive_heartbeat(1, 2, offset=offset)
    assert not controller.heartbeat_manager.all_applied(offset)
    assert controller.heartbeat_manager.all_applied(offset, excluding=3)
    controller.receive_heartbeat(3, offset=offset - 1)
    assert not controller.heartbeat_manager.all_applied(offset)
    assert controller.heartbeat_manager.all_applied(offset - 1)
    controller.receive_heartbeat(3, offset=offset)
    assert controller.heartbeat_manager.all_applied(offset)
    assert not controller.heartbeat_manager.all_applied(offset + 1)


def test_fenced_broker_does_not_count_for_applied_offsets() -> None:
    controller = Controller()
    offset = controller.image.offset
    controller.now += SESSION // 2
    controller.receive_heartbeat(1, 2, offset=offset)
    assert controller.look() == [3]
    assert controller.heartbeat_manager.all_applied(offset)
