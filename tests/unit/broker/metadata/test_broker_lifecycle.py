"""Broker registration, heartbeats and controlled shutdown, in virtual time with a scripted controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest

from broker.metadata.broker_lifecycle import BrokerLifecycleManager, RegistrationError
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from tests.unit.broker.node import VirtualLoop

INTERVAL_S, SESSION_S = 2.0, 9.0
NONE = ErrorCode.NONE
REGISTRATION = BrokerRegistrationRequest(
    broker_id=4, cluster_id="ours", incarnation_id=b"i" * 16, listeners=[], features=[], rack=None, log_dirs=[]
)


class Controller:
    """Return scripted responses; record each request with its time."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.requested: list[Any] = []
        self.registrations = [NONE]
        self.epoch_of_refusals = -1
        self.heartbeat = {"is_caught_up": True, "is_fenced": False}
        self.error = NONE
        self.silent = False
        self.changed = self.loop.create_future()
        self.offset = 7
        self.offline: list[Any] = []
        self.cordoned: list[Any] = []
        self.lifecycle = BrokerLifecycleManager(
            4,
            self.call,  # type: ignore[arg-type]  # narrower than declared
            self.loop,
            controller_change=lambda: self.changed,
            applied_offset=lambda: self.offset,
            offline_directories=lambda: self.offline,
            cordoned_directories=lambda: self.cordoned,
            heartbeat_interval_s=INTERVAL_S,
            session_timeout_s=SESSION_S,
        )

    async def call(
        self, request: BrokerHeartbeatRequest | BrokerRegistrationRequest, timeout_s: float
    ) -> BrokerHeartbeatResponse | BrokerRegistrationResponse:
        self.requested.append((self.loop.time(), request))
        if self.silent:
            await asyncio.sleep(timeout_s)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no controller answers")
        if isinstance(request, BrokerRegistrationRequest):
            code = self.registrations.pop(0) if len(self.registrations) > 1 else self.registrations[0]
            return BrokerRegistrationResponse(error_code=code, broker_epoch=self.epoch_of_refusals if code else 11)
        if self.error:
            return BrokerHeartbeatResponse(error_code=self.error)
        return BrokerHeartbeatResponse(**self.heartbeat)

    def run(self, awaitable: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(awaitable)

    def let_pass(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    @property
    def times(self) -> list[float]:
        return [round(at, 2) for at, _ in self.requested]


@pytest.fixture
def controller() -> Iterator[Controller]:
    made = Controller()
    yield made
    made.run(made.lifecycle.stop())
    made.loop.close()


def test_registration_sets_broker_epoch(controller: Controller) -> None:
    assert controller.lifecycle.broker_epoch == -1
    assert controller.run(controller.lifecycle.register(REGISTRATION, 60)) == 11
    assert controller.lifecycle.broker_epoch == 11


def test_rejected_registration_leaves_broker_epoch_unset(controller: Controller) -> None:
    controller.registrations, controller.epoch_of_refusals = [ErrorCode.INVALID_REGISTRATION], 5
    with pytest.raises(RegistrationError):
        controller.run(controller.lifecycle.register(REGISTRATION, 60))
    assert controller.lifecycle.broker_epoch == -1


def test_registration_is_retried_while_previous_session_may_be_alive(controller: Controller) -> None:
    controller.registrations = [ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 5 + [NONE]
    assert controller.run(controller.lifecycle.register(REGISTRATION, 60)) == 11
    assert len(controller.requested) == 6
    assert controller.times[-1] < 1


@pytest.mark.parametrize(
    ("code", "words", "final"),
    [
        (ErrorCode.DUPLICATE_BROKER_REGISTRATION, "another broker with node.id=4 is running", False),
        (ErrorCode.INCONSISTENT_CLUSTER_ID, "the data directory belongs to cluster ours", True),
        (ErrorCode.INVALID_REGISTRATION, "rejected the registration: INVALID_REGISTRATION", True),
        (ErrorCode.UNSUPPORTED_VERSION, "rejected the registration: UNSUPPORTED_VERSION", True),
    ],
)
def test_registration_error_gives_reason_and_is_immediate_only_if_fatal(
    controller: Controller, code: ErrorCode, words: str, final: bool
) -> None:
    controller.registrations = [code]
    with pytest.raises(RegistrationError, match=words):
        controller.run(controller.lifecycle.register(REGISTRATION, 5))
    assert (controller.loop.time() == 0) is final


@pytest.mark.parametrize(
    ("silent", "words"), [(False, "another broker with node.id=4 is running"), (True, "no controller answered")]
)
def test_delayed_registration_logs_reason_before_timeout(
    controller: Controller, caplog: pytest.LogCaptureFixture, silent: bool, words: str
) -> None:
    controller.silent = silent
    controller.registrations = [ErrorCode.DUPLICATE_BROKER_REGISTRATION]
    registering = controller.loop.create_task(controller.lifecycle.register(REGISTRATION, 60))
    controller.let_pass(2)
    assert caplog.messages == []
    controller.let_pass(10)
    assert [words in message for message in caplog.messages] == [True]
    assert "55 s" in caplog.text
    registering.cancel()
    controller.let_pass(1)


def test_delayed_registration_logs_remaining_time_and_setting(
    controller: Controller, caplog: pytest.LogCaptureFixture
) -> None:
    controller.silent = True
    with pytest.raises(
        RegistrationError, match=r"within 60 s \(initial.broker.registration.timeout.ms\): no controller"
    ):
        controller.run(controller.lifecycle.register(REGISTRATION, 60))
    assert all("giving up in" in message for message in caplog.messages)
    assert all("initial.broker.registration.timeout.ms" in message for message in caplog.messages)
    assert len(caplog.messages) in (5, 6)  # First after 5 s, then every 10 s.


def test_successful_registration_logs_nothing(controller: Controller, caplog: pytest.LogCaptureFixture) -> None:
    controller.run(controller.lifecycle.register(REGISTRATION, 60))
    controller.let_pass(60)
    assert caplog.messages == []


def test_registration_without_controllers_fails_at_timeout_with_reason(controller: Controller) -> None:
    controller.silent = True
    with pytest.raises(RegistrationError, match="a majority of controller"):
        controller.run(controller.lifecycle.register(REGISTRATION, 5))
    assert controller.loop.time() == pytest.approx(5)


def test_heartbeats_carry_metadata_offset_and_offline_and_cordoned_dirs(controller: Controller) -> None:
    controller.offline, controller.cordoned = [b"o" * 16], [b"c" * 16]
    controller.lifecycle.begin()
    controller.let_pass(1)
    [(_, heartbeat)] = controller.requested
    assert (heartbeat.broker_id, heartbeat.broker_epoch, heartbeat.current_metadata_offset) == (4, -1, 7)
    assert (heartbeat.want_fence, heartbeat.want_shut_down) == (False, False)
    assert (heartbeat.offline_log_dirs, heartbeat.cordoned_log_dirs) == ([b"o" * 16], [b"c" * 16])


def test_heartbeats_are_sent_at_each_interval(controller: Controller) -> None:
    controller.lifecycle.begin()
    controller.let_pass(5)
    assert controller.times == [0, 2, 4]


def test_send_now_sends_heartbeat_immediately(controller: Controller) -> None:
    controller.lifecycle.begin()
    controller.let_pass(1)
    controller.lifecycle.send_now()
    controller.let_pass(0.5)
    assert controller.times == [0, 1]


def test_heartbeat_is_sent_immediately_on_controller_change(controller: Controller) -> None:
    controller.lifecycle.begin()
    controller.let_pass(1)
    was, controller.changed = controller.changed, controller.loop.create_future()
    was.set_result(None)
    controller.let_pass(0.5)
    assert controller.times == [0, 1]


def test_offline_dir_report_returns_after_acknowledged_heartbeat(controller: Controller) -> None:
    controller.lifecycle.begin()
    controller.let_pass(0.5)
    controller.offline = [b"o" * 16]
    controller.run(controller.lifecycle.send_and_wait())
    assert controller.requested[-1][1].offline_log_dirs == [b"o" * 16]


def test_broker_is_active_once_controller_unfences_it(controller: Controller) -> None:
    controller.heartbeat = {"is_caught_up": False, "is_fenced": True}
    controller.lifecycle.begin()
    active = controller.loop.create_task(controller.lifecycle.until_active())
    controller.let_pass(3)
    assert controller.lifecycle.fenced
    assert not active.done()
    controller.heartbeat = {"is_caught_up": True, "is_fenced": False}
    controller.run(active)
    assert not controller.lifecycle.fenced


def test_repeated_heartbeat_error_is_logged_once(controller: Controller, caplog: pytest.LogCaptureFixture) -> None:
    controller.error = ErrorCode.STALE_BROKER_EPOCH
    controller.lifecycle.begin()
    controller.let_pass(10)
    controller.error = NONE
    controller.let_pass(10)
    assert [record.getMessage() for record in caplog.records] == [
        "Heartbeat to the controller failed: STALE_BROKER_EPOCH"
    ]


def test_heartbeats_continue_after_failure_to_build_one(
    controller: Controller, caplog: pytest.LogCaptureFixture
) -> None:
    controller.lifecycle.begin()
    controller.offline = None  # type: ignore[assignment]  # wrong on purpose
    controller.let_pass(INTERVAL_S)
    assert "A heartbeat failed" in caplog.text
    controller.offline = []
    controller.let_pass(INTERVAL_S)
    assert controller.requested


def test_fencing_and_unfencing_are_logged(controller: Controller, caplog: pytest.LogCaptureFixture) -> None:
    controller.lifecycle.begin()
    controller.run(controller.lifecycle.until_active())
    for fenced in (True, False):
        controller.heartbeat = {"is_caught_up": True, "is_fenced": fenced}
        controller.let_pass(10)
    assert [record.getMessage() for record in caplog.records] == [
        "The controller has fenced this broker",
        "The controller has unfenced this broker",
    ]


def test_controlled_shutdown_ends_on_should_shut_down(controller: Controller) -> None:
    controller.lifecycle.begin()
    controller.run(controller.lifecycle.until_active())
    shutting_down = controller.loop.create_task(controller.lifecycle.shut_down(10))
    controller.let_pass(1)
    assert not shutting_down.done()
    assert controller.requested[-1][1].want_shut_down
    assert len(controller.requested) > 10, "a broker that stops does not wait for the next heartbeat"
    controller.heartbeat = {"is_caught_up": True, "is_fenced": True, "should_shut_down": True}
    assert controller.run(shutting_down)


def test_controlled_shutdown_times_out(controller: Controller) -> None:
    controller.lifecycle.begin()
    controller.run(controller.lifecycle.until_active())
    assert not controller.run(controller.lifecycle.shut_down(10))
    assert controller.loop.time() == pytest.approx(10, abs=0.1)


def test_controlled_shutdown_without_controllers_ends_early(controller: Controller) -> None:
    controller.lifecycle.begin()
    controller.run(controller.lifecycle.until_active())
    controller.let_pass(1)
    controller.silent = True
    assert not controller.run(controller.lifecycle.shut_down(10))
    assert controller.loop.time() < 3
