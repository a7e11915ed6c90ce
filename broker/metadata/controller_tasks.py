"""The active controller's periodic tasks, from when this node leads the quorum until it no longer does.

    fence brokers                    when `controller.broker_heartbeat_manager` reports a session as expired
    balance leaders                  elect preferred leaders every `leader.imbalance.check.interval.seconds`
    unclean elections                for partitions without a leader whose topic allows it, every
                                     `unclean.leader.election.interval.ms`
    remove expired delegation tokens every `delegation.token.expiry.check.interval.ms`, if there is a secret key

Each task submits a command, like a client's request, decided on the newest image. No state is kept from one leadership
to the next. Kafka: `QuorumController`'s `PeriodicTask`s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import Any

from broker.metadata.raft_driver import RaftDriver
from broker.metadata.start_group import StartGroup
from broker.network.connection import Connection
from broker.runtime.alarm import Alarm
from controller.broker_heartbeat_manager import RESTARTED, BrokerHeartbeatManager
from controller.commands.brokers import fence_brokers
from controller.commands.controller_result import Command, ControllerResult
from controller.commands.periodic_elections import balance_leaders, elect_unclean_leaders
from controller.configs.effective import StaticSettings
from controller.image import BrokerImage, Endpoint, MetadataImage
from protocol.errors import InvariantError, KafkaError
from protocol.schema import Message

# The connections and listeners of a killed process close one after the other.
_EXIT_DELAY_S = 0.02

_log = logging.getLogger("broker.controller")


class ControllerTasks:
    """The tasks of this node while it leads."""

    def __init__(
        self,
        quorum: RaftDriver,
        settings: StaticSettings,
        loop: asyncio.AbstractEventLoop,
        *,
        now_ms: Callable[[], int],
        broker_epoch: Callable[[], int],
        has_exited: Callable[[BrokerImage], Awaitable[bool]],
        start_group: StartGroup | None = None,
    ) -> None:
        """Run no task until `begin`.

        `now_ms` returns the wall clock, `broker_epoch` the epoch of this node's own broker, -1 until it is registered;
        `has_exited` checks whether the process of another broker has exited. `start_group` has the brokers that were
        started together with this node.
        """
        self.heartbeat_manager = BrokerHeartbeatManager(
            settings["broker.session.timeout.ms"], settings["barnabas.broker.disconnect.grace.ms"]
        )
        self._quorum = quorum
        self._broker_epoch = broker_epoch
        self._has_exited = has_exited
        self._start_group = start_group
        self._settings = settings
        self._loop = loop
        self._leads = False
        self._heartbeat_received: asyncio.Future[None] = loop.create_future()
        self._session_alarm = Alarm(loop, self._fence_expired)
        self._periodic = [self._every(settings["unclean.leader.election.interval.ms"] / 1000, elect_unclean_leaders)]
        if settings["auto.leader.rebalance.enable"]:
            interval_s = settings["leader.imbalance.check.interval.seconds"]
            self._periodic.append(self._every(interval_s, balance_leaders))
        if settings["delegation.token.secret.key"]:
            interval_s = settings["delegation.token.expiry.check.interval.ms"] / 1000
            self._periodic.append(self._every(interval_s, lambda image, **_: _sweep_tokens(image, now_ms())))
        self._tasks: set[asyncio.Task[None]] = set()
        self._change: asyncio.Future[None] = loop.create_future()

    def begin(self) -> None:
        """Run the tasks from now on, whenever this node leads."""
        self._quorum.subscribe(self._apply)
        self._leader_changed()

    async def stop(self) -> None:
        """Stop the tasks for good."""
        self._change.remove_done_callback(self._leader_changed)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._end_leading()

    def heartbeat_received(
        self, broker_id: int, broker_epoch: int, metadata_offset: int, connection: Connection | None
    ) -> None:
        """Record a heartbeat, and the connection that it came through; None if there is none that can break."""
        key = None if connection is None else connection.connection_id
        self.heartbeat_manager.touch(broker_id, broker_epoch, metadata_offset, key, self._now_ms())
        if connection is not None:
            connection.on_close(self, partial(self._connection_lost, connection.connection_id))
        self._wake_waiters()

    async def until_all_applied(self, offset: int, timeout_s: float) -> None:
        """Wait until all other active brokers have applied the metadata up to `offset`.

        Return at the latest after `timeout_s`, or when this node no longer leads.
        """
        deadline_s = self._loop.time() + timeout_s
        while self._leads and not self.heartbeat_manager.all_applied(offset, excluding=self._settings.node_id):
            left_s = deadline_s - self._loop.time()
            if left_s <= 0:
                return
            await asyncio.wait([self._heartbeat_received], timeout=left_s)  # shared: wait() does not cancel it

    def _wake_waiters(self) -> None:
        received, self._heartbeat_received = self._heartbeat_received, self._loop.create_future()
        received.set_result(None)

    def registration_attempted(self, broker_id: int, incarnation_id: bytes, endpoints: Mapping[str, Endpoint]) -> None:
        """Record that a process which listens at `endpoints` tries to register as this broker."""
        if self._leads:
            together = self._start_group is not None and self._start_group.has(incarnation_id)
            self.heartbeat_manager.registration_attempted(
                broker_id, endpoints, self._now_ms(), started_together=together
            )
            self._fence_expired()

    def alive(self) -> Collection[int]:
        """Return the ids of the brokers whose session has not expired."""
        return self.heartbeat_manager.alive(self._now_ms())

    def _leader_changed(self, _changed: asyncio.Future[None] | None = None) -> None:
        """Start or stop the tasks when this node gains or loses leadership; called on every change of the leader."""
        self._change = self._quorum.leader_change()
        self._change.add_done_callback(self._leader_changed)
        if self._quorum.leads and not self._leads:
            self._begin_leading()
        elif self._leads and not self._quorum.leads:
            self._end_leading()

    def _begin_leading(self) -> None:
        if not self._quorum.is_only_voter:
            _log.info("This node is the active controller, in epoch %d", self._quorum.epoch)
        self._leads = True
        now_ms = self._now_ms()
        self.heartbeat_manager.become_active(self._quorum.image, now_ms)
        for node_id, since_ms in self._quorum.unreachable().items():
            self.heartbeat_manager.unreachable(node_id, since_ms)
        node_id = self._settings["node.id"]
        own = self._quorum.image.brokers.get(node_id)
        if own is not None and own.epoch != self._broker_epoch():
            self.heartbeat_manager.unreachable(node_id, 0)  # the registration of an earlier run of this node
        self._fence_expired()
        for alarm, interval_s in self._periodic:
            alarm.schedule_at(self._loop.time() + interval_s)

    def _end_leading(self) -> None:
        self._leads = False
        self._wake_waiters()
        self._session_alarm.cancel()
        for alarm, _ in self._periodic:
            alarm.cancel()

    def _apply(self, _before: MetadataImage, image: MetadataImage, _records: tuple[Message, ...]) -> None:
        if self._leads:
            self.heartbeat_manager.apply(image, self._now_ms())
            self._wake_waiters()
            self._fence_expired()

    def _connection_lost(self, connection_id: int) -> None:
        if self._leads:
            for broker in self.heartbeat_manager.connection_lost(connection_id, self._now_ms()):
                self._perform(self._check_exited(broker))
            self._fence_expired()

    async def _check_exited(self, broker: BrokerImage) -> None:
        await asyncio.sleep(_EXIT_DELAY_S)
        if await self._has_exited(broker) and self._leads:
            self.heartbeat_manager.process_exited(broker.broker_id, broker.epoch, self._now_ms())
            self._fence_expired()

    def _fence_expired(self) -> None:
        """Fence the brokers that are due, and schedule the next check."""
        # `expired` repeats brokers after each grace until they are fenced.
        logged = self.heartbeat_manager.silent()
        to_fence = self.heartbeat_manager.expired(self._now_ms())
        logged.add(self._settings["node.id"])  # an earlier run of this node
        for broker_id in sorted(to_fence.keys() - logged):
            reason = self.heartbeat_manager.end_reason(broker_id)
            # All brokers register anew whenever a cluster is started.
            level = logging.INFO if reason == RESTARTED else logging.WARNING
            _log.log(level, "Fencing broker %d: %s", broker_id, reason)
        if to_fence:
            self._submit(partial(fence_brokers, epochs=to_fence, settings=self._settings))
        self._session_alarm.schedule_at_ms(self.heartbeat_manager.due_ms)

    def _every(self, interval_s: float, command: Callable[..., ControllerResult[bool]]) -> tuple[Alarm, float]:
        """Return an alarm that submits `command` at each interval, and at once while there is more to do."""

        def submit() -> None:
            self._submit(partial(command, settings=self._settings), again=submit)
            alarm.schedule_at(self._loop.time() + interval_s)

        alarm = Alarm(self._loop, submit)
        return alarm, interval_s

    def _submit(self, command: Command[Any], again: Callable[[], None] | None = None) -> None:
        self._perform(self._decide(command, again))

    def _perform(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._performed)

    def _performed(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.call_exception_handler({"message": "A task of the active controller failed", "exception": error})

    async def _decide(self, command: Command[Any], again: Callable[[], None] | None) -> None:
        try:
            more = await self._quorum.submit(command)
        except InvariantError:
            return  # already passed to the loop's exception handler
        except KafkaError as error:
            _log.warning("A command of the active controller failed: %s", error)
            return
        if more and again is not None and self._leads:
            again()

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)


def _sweep_tokens(image: MetadataImage, now_ms: int) -> ControllerResult[bool]:
    from controller.commands.delegation_tokens import sweep_expired_delegation_tokens  # most clusters have no tokens

    return sweep_expired_delegation_tokens(image, now_ms)
