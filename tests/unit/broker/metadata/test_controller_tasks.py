"""Periodic tasks of the active controller, in a cluster of real nodes in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any, Never

import pytest

from broker.metadata.controller_tasks import ControllerTasks
from broker.settings import Option, Settings, check_settings
from controller.commands.controller_result import Command
from controller.image import BrokerImage, MetadataImage
from protocol.schema import Message
from tests.typed import present
from tests.unit.broker.node import VirtualLoop
from tests.unit.broker.whole_cluster import BOTH, BROKER, CONTROLLER, WholeCluster

FENCING = "Fencing broker "
GRACE_S, SESSION_S = 0.3, 9.0
APART = dict.fromkeys((1, 2, 3), CONTROLLER) | dict.fromkeys((4, 5), BROKER)


class Broken:
    """A quorum led by this node, whose metadata cannot be read."""

    leads = is_only_voter = False
    epoch = 1

    def __init__(self, loop: VirtualLoop) -> None:
        self.changed = loop.create_future()

    def subscribe(self, _subscriber: Callable[[MetadataImage, MetadataImage, tuple[Message, ...]], None]) -> None:
        pass

    def leader_change(self) -> asyncio.Future[object]:
        return self.changed

    @property
    def image(self) -> MetadataImage:
        raise RuntimeError("no image")


class Refusing(Broken):
    """A quorum led by this node, where every command fails."""

    @property
    def image(self) -> MetadataImage:
        return MetadataImage(cluster_id="test")

    def unreachable(self) -> dict[int, int]:
        return {}

    async def submit(self, _command: Command[object]) -> Never:
        raise RuntimeError("no decision")


@pytest.fixture
def make() -> Iterator[Callable[..., WholeCluster]]:
    made: list[WholeCluster] = []

    def make(roles: dict[int, str] | None = None, **settings: Any) -> WholeCluster:
        made.append(WholeCluster(roles, **settings))
        made[-1].start()
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def apart(make: Callable[..., WholeCluster]) -> WholeCluster:
    """Return three controllers and two brokers, each a process of its own."""
    return make(APART)


def fenced(cluster: WholeCluster, broker_id: int) -> bool:
    return cluster.raft(cluster.active).image.brokers[broker_id].fenced


def fenced_after(cluster: WholeCluster, broker_id: int) -> float:
    """Return the seconds until a broker is fenced."""
    begin = cluster.schedule.now
    cluster.until(lambda: fenced(cluster, broker_id), "fenced")
    return cluster.schedule.now - begin


def test_a_broker_whose_process_has_ended_is_fenced_at_once(apart: WholeCluster) -> None:
    apart.kill(4)
    assert fenced_after(apart, 4) < 0.1
    assert not fenced(apart, 5)


def test_unreachable_broker_with_lost_connection_is_fenced_after_grace(
    apart: WholeCluster,
) -> None:
    apart.kill(4)
    apart.let_pass(0.01)  # The connection loss has been noticed by now.
    for controller in (1, 2, 3):
        apart.cut(4, controller)
    apart.let_pass(GRACE_S - 0.05)
    assert not fenced(apart, 4)
    apart.let_pass(0.2)
    assert fenced(apart, 4)
    assert not fenced(apart, 5)


def test_a_broker_that_hangs_is_fenced_after_its_session(apart: WholeCluster) -> None:
    apart.hosts[4].pause()
    assert SESSION_S - 2.5 < fenced_after(apart, 4) < SESSION_S + 1


def test_partitioned_broker_is_fenced_after_its_session(apart: WholeCluster) -> None:
    for controller in (1, 2, 3):
        apart.cut(4, controller)
    assert SESSION_S - 2.5 < fenced_after(apart, 4) < SESSION_S + 1


def test_broker_is_unfenced_when_heartbeats_resume(apart: WholeCluster) -> None:
    apart.hosts[4].pause()
    fenced_after(apart, 4)
    apart.hosts[4].resume()
    apart.until(lambda: not fenced(apart, 4))


def test_controller_failover_fences_no_broker(apart: WholeCluster) -> None:
    apart.kill(apart.active)
    apart.let_pass(GRACE_S + SESSION_S + 2)
    assert not fenced(apart, 4)
    assert not fenced(apart, 5)


def test_killed_combined_leader_is_fenced_as_broker_early(make: Callable[..., WholeCluster]) -> None:
    cluster = make()
    killed = cluster.active
    cluster.kill(killed)
    cluster.until(lambda: cluster.active != killed)
    assert fenced_after(cluster, killed) < 1.5


def test_hanging_combined_leader_is_fenced_as_broker(make: Callable[..., WholeCluster]) -> None:
    cluster = make()
    hangs = cluster.active
    cluster.hosts[hangs].pause()
    assert cluster.active != hangs
    assert fenced_after(cluster, hangs) < SESSION_S + 1


def test_preferred_leaders_are_elected(make: Callable[..., WholeCluster]) -> None:
    cluster = make(leader_imbalance_check_interval_seconds="5", leader_imbalance_per_broker_percentage="0")
    stays = cluster.active
    cluster.create(stays, "t", partitions=6)
    other = cluster.follower()
    cluster.stop(other)
    assert all(state.leader != other for state in present(cluster.raft(stays).image.topic("t")).partitions.values())
    cluster.start(other)

    def all_are_preferred() -> bool:
        states = present(cluster.raft(stays).image.topic("t")).partitions.values()
        return all(state.leader == state.replicas[0] for state in states)

    assert not all_are_preferred()
    cluster.until(all_are_preferred)


def test_deposed_leader_runs_no_controller_tasks(make: Callable[..., WholeCluster]) -> None:
    cluster = make()
    was = cluster.active
    others = [node for node in cluster.running if node != was]
    for other in others:
        cluster.cut(was, other)
    cluster.until(lambda: any(cluster.raft(other).leads for other in others), "another leader")
    cluster.until(lambda: not cluster.raft(was).leads, "it resigns")
    tasks = present(cluster.node(was).controller).tasks
    cluster.let_pass(1)
    alarms = [tasks._session_alarm, *(alarm for alarm, _ in tasks._periodic)]
    assert not any(alarm.is_set for alarm in alarms)


def test_killed_controller_restarts_without_waiting_for_old_session_or_warning(
    make: Callable[..., WholeCluster], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = make({1: BOTH, 2: BROKER}, **{"barnabas.cluster.id": "A" * 22})
    cluster.kill(1)
    caplog.clear()
    begin = cluster.schedule.now
    cluster.start(1)
    assert cluster.schedule.now - begin < SESSION_S / 2
    assert FENCING not in caplog.text


def test_broker_killed_with_controller_returns_before_session_timeout(apart: WholeCluster) -> None:
    apart.kill(4)
    apart.kill(apart.active)
    begin = apart.schedule.now
    apart.start(4)
    assert apart.schedule.now - begin < SESSION_S / 2


class Stalled(Refusing):
    """A quorum led by this node, where no command is committed."""

    def __init__(self, loop: VirtualLoop, brokers: int) -> None:
        super().__init__(loop)
        self.brokers = {
            broker_id: BrokerImage(broker_id, broker_id, bytes(16), {}, {}, None, False, False, ())
            for broker_id in range(2, 2 + brokers)
        }
        self.submitted = 0

    @property
    def image(self) -> MetadataImage:
        return MetadataImage(cluster_id="test", brokers=self.brokers)

    def subscribe(self, subscriber: Callable[[MetadataImage, MetadataImage, tuple[Message, ...]], None]) -> None:
        self.apply = subscriber

    async def submit(self, _command: Command[object]) -> Any:
        self.submitted += 1

    def commit(self, **changes: Any) -> None:
        """Change every broker."""
        before = self.image
        self.brokers = {broker_id: broker._replace(**changes) for broker_id, broker in self.brokers.items()}
        self.apply(before, self.image, ())


def tasks_of(quorum: Any, loop: VirtualLoop, settings: Settings | None = None) -> ControllerTasks:
    """Return the tasks; `quorum` stands in for a RaftDriver."""

    async def has_exited(_broker: object) -> bool:
        return False

    settings = settings or check_settings({})
    return ControllerTasks(quorum, settings, loop, now_ms=lambda: 0, broker_epoch=lambda: -1, has_exited=has_exited)


def begun_as_leader(quorum: Stalled | Broken, loop: VirtualLoop) -> ControllerTasks:
    """Return tasks that have begun, and have been told that their node leads the quorum."""
    controller_tasks = tasks_of(quorum, loop)
    controller_tasks.begin()
    quorum.leads = True
    quorum.changed.set_result(None)
    quorum.changed = loop.create_future()
    return controller_tasks


def test_uncommitted_fencing_is_logged_once_until_heartbeats_resume(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = VirtualLoop()
    quorum = Stalled(loop, brokers=2)
    controller_tasks = begun_as_leader(quorum, loop)

    def logged_within(seconds: float) -> list[str]:
        caplog.clear()
        loop.run_until_complete(asyncio.sleep(seconds))
        return [message for message in caplog.messages if message.startswith(FENCING)]

    fencing_2, fencing_3 = (f"{FENCING}{n}: no heartbeat within broker.session.timeout.ms" for n in (2, 3))
    assert logged_within(SESSION_S + 2) == [fencing_2, fencing_3]
    assert quorum.submitted > 2
    controller_tasks.heartbeat_received(3, 3, 0, None)
    assert logged_within(SESSION_S + 2) == [fencing_3], "its next session has expired"
    quorum.commit(fenced=True)
    assert logged_within(SESSION_S) == []
    for broker_id in (2, 3):
        controller_tasks.heartbeat_received(broker_id, broker_id, 0, None)
    quorum.commit(fenced=False)
    assert logged_within(SESSION_S + 2) == [fencing_2, fencing_3]
    quorum.commit(epoch=9)
    assert logged_within(SESSION_S + 2) == [fencing_2, fencing_3], "they have registered anew"
    loop.run_until_complete(controller_tasks.stop())
    loop.close()


def test_fencing_of_brokers_of_the_last_run_at_the_start_of_the_cluster_is_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = VirtualLoop()
    quorum = Stalled(loop, brokers=2)
    controller_tasks = begun_as_leader(quorum, loop)
    loop.run_until_complete(asyncio.sleep(0))
    caplog.set_level(logging.INFO)
    for broker_id in (2, 3):
        controller_tasks.heartbeat_manager.registration_attempted(broker_id, {}, 0, started_together=True)
        controller_tasks.registration_attempted(broker_id, bytes(16), {})
    loop.run_until_complete(asyncio.sleep(1))
    fencing = [(one.levelno, one.getMessage()) for one in caplog.records if one.getMessage().startswith(FENCING)]
    assert fencing == [
        (logging.INFO, f"{FENCING}{broker_id}: it was started again, together with this controller")
        for broker_id in (2, 3)
    ]
    loop.run_until_complete(controller_tasks.stop())
    loop.close()


def test_failed_controller_task_is_logged_immediately() -> None:
    loop = VirtualLoop()
    reported = []
    loop.set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
    quorum = Broken(loop)
    controller_tasks = begun_as_leader(quorum, loop)
    loop.run_until_complete(asyncio.sleep(1))
    assert reported == ["no image"]
    loop.run_until_complete(controller_tasks.stop())
    loop.close()


def test_failure_of_spawned_controller_task_is_logged_immediately() -> None:
    loop = VirtualLoop()
    reported: list[tuple[str, str]] = []
    loop.set_exception_handler(lambda _, context: reported.append((context["message"], str(context["exception"]))))
    quorum = Refusing(loop)
    settings = check_settings({"leader.imbalance.check.interval.seconds": Option("1", "the test")})
    controller_tasks = tasks_of(quorum, loop, settings)
    controller_tasks.begin()
    quorum.leads = True
    quorum.changed.set_result(None)
    quorum.changed = loop.create_future()
    loop.run_until_complete(asyncio.sleep(1.5))
    assert reported == [("A task of the active controller failed", "no decision")]
    loop.run_until_complete(controller_tasks.stop())
    loop.close()
