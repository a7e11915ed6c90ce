"""The group coordinator: one shard for each `__consumer_offsets` partition led here (Kafka: `GroupCoordinatorService`).

A shard is loaded when this broker becomes leader of its partition and dropped when it stops leading. Requests for its
groups return COORDINATOR_LOAD_IN_PROGRESS while it loads, and NOT_COORDINATOR for a partition led elsewhere. If its log
is damaged and cannot be loaded, they return UNKNOWN_SERVER_ERROR, which clients report to their users; on Kafka's
NOT_COORDINATOR they would look for another coordinator forever.

One timer serves all groups, set to the earliest deadline. When it fires, at most `_EVENTS_A_TURN` events are handled;
if more are due it fires again at once. `runtime.shard_host` writes and answers a shard's decisions, and defines
`Outcome`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.coordinator.group.context import (
    GroupContext,
    GroupSettings,
    Join,
    Joined,
    Leaving,
    Left,
    Sync,
    Synced,
)
from broker.coordinator.group.group_host import GroupHost
from broker.coordinator.runtime.partition_for import partition_for
from broker.coordinator.runtime.partition_log import Journal
from broker.coordinator.runtime.shard_host import Outcome
from broker.coordinator.runtime.timers import Timers
from broker.runtime.alarm import Alarm
from broker.runtime.cooperative import start_steps
from protocol.errors import DecodeError, ErrorCode, InvariantError, KafkaError
from storage.disk import reason

if TYPE_CHECKING:
    from random import Random

    from broker.coordinator.group.shard import Commit, GroupCoordinatorShard, Offset
    from storage.steps import Steps

OFFSETS_TOPIC = "__consumer_offsets"

# Many sessions that expire together, as after the loss of a rack, must not block the loop.
_EVENTS_A_TURN = 100

_NOT_FORGOTTEN = "Deleting the committed offsets of deleted topics failed"

_log = logging.getLogger("broker.coordinator.group")


class GroupCoordinator:
    """Serves the group APIs."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        random: Random,
        settings: GroupSettings,
        partition_count: Callable[[], int],
        open_journal: Callable[[int], Journal],
    ) -> None:
        """Host nothing yet. `partition_count` returns that of `__consumer_offsets`, or what it will be."""
        self.settings = settings
        self._loop = loop
        self._now_ms = now_ms
        self._random = random
        self._partition_count = partition_count
        self._open_journal = open_journal
        self._hosts: dict[int, GroupHost] = {}
        self.failures: dict[int, str] = {}
        """The partitions led here whose groups could not be loaded, with the reason."""
        self._alarm = Alarm(loop, self._fire_due)
        self._timers = Timers(self._alarm.schedule_at)
        self._tasks: set[asyncio.Future[None]] = set()

    def stop(self) -> None:
        """Answer every waiting request with NOT_COORDINATOR, and drop all shards."""
        for index in list(self._hosts):
            self.leadership_changed(index, None)
        for task in self._tasks:
            task.cancel()
        self._alarm.cancel()

    def loaded_shards(self) -> list[GroupCoordinatorShard]:
        """Return the shards that are loaded."""
        return [host.shard for host in self._hosts.values() if host.ready]

    # Requests.

    def join(self, request: Join) -> Outcome[Joined]:
        """Handle JoinGroup."""
        if not request.group_id:
            return Joined(ErrorCode.INVALID_GROUP_ID, request.member_id)
        limits = self.settings
        if not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
            return Joined(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        host = self._host_of(request.group_id)
        return host.ask(lambda turn, to: host.shard.join(turn, request, to))

    def sync(self, request: Sync) -> Outcome[Synced]:
        """Handle SyncGroup; the leader's carries the assignments."""
        if not request.group_id:
            return Synced(ErrorCode.INVALID_GROUP_ID)
        host = self._host_of(request.group_id)
        return host.ask(lambda turn, to: host.shard.sync(turn, request, to))

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Renew a session and return the Heartbeat error code; NONE while the group loads."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        try:
            shard = self._host_of(group_id).shard
        except KafkaError as error:
            return ErrorCode.NONE if error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error.code
        return shard.heartbeat(self._timers, self._loop.time(), group_id, member_id, instance_id, generation)

    def leave(self, group_id: str, members: list[Leaving]) -> Outcome[Left]:
        """Remove members."""
        if not group_id:
            return Left(ErrorCode.INVALID_GROUP_ID)
        host = self._host_of(group_id)
        return host.ask(lambda turn, to: host.shard.leave(turn, group_id, members, to))

    def commit(
        self, who: Commit, offsets: list[Offset], *, retention_ms: int, reports_unknown_group: bool
    ) -> Outcome[list[ErrorCode]]:
        """Commit offsets; return an error code for each."""
        host = self._host_of(who.group_id)
        records, errors = host.shard.commit(
            self._turn(), who, offsets, retention_ms=retention_ms, reports_unknown_group=reports_unknown_group
        )
        return host.write(records, errors)

    def delete_offsets(self, group_id: str, partitions: list[tuple[str, int]]) -> Outcome[list[ErrorCode]]:
        """Delete committed offsets; return an error code for each partition."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        host = self._host_of(group_id)
        records, errors = host.shard.delete_offsets(group_id, partitions)
        return host.write_in_pieces(records, errors)

    def delete_group(self, group_id: str) -> Outcome[ErrorCode]:
        """Delete a group that has no members, with its offsets."""
        host = self._host_of(group_id)
        return host.write_in_pieces(host.shard.delete_group(group_id), ErrorCode.NONE)

    def settled(self, group_id: str) -> Outcome[GroupCoordinatorShard]:
        """Return the shard of a group for reading, once all its records are committed."""
        host = self._host_of(group_id)
        return host.after(host.shard)

    def shard_of(self, group_id: str) -> GroupCoordinatorShard:
        """Return the shard of a group, to inspect its members."""
        return self._host_of(group_id).shard

    def shards(self) -> list[GroupCoordinatorShard]:
        """Return all shards hosted here; COORDINATOR_LOAD_IN_PROGRESS if some are not loaded yet."""
        if not all(host.ready for host in self._hosts.values()):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [host.shard for host in self._hosts.values()]

    def partition_of(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` that a group belongs to."""
        return partition_for(group_id, self._partition_count())

    def _host_of(self, group_id: str) -> GroupHost:
        index = self.partition_of(group_id)
        host = self._hosts.get(index)
        if host is None:
            if index in self.failures:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, self.failures[index])
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if not host.ready:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return host

    # Metadata changes.

    def leadership_changed(self, index: int, leader_epoch: int | None) -> None:
        """Host the shard of a partition led here from `leader_epoch` on, or drop it (None)."""
        host = self._hosts.get(index)
        self.failures.pop(index, None)
        if leader_epoch is None:
            if host is not None:
                del self._hosts[index]
                host.close()
        elif host is None:
            self._host(index, leader_epoch)
        elif leader_epoch > host.leader_epoch:
            host.leader_epoch = leader_epoch

    def topics_deleted(self, topics: list[tuple[str, bytes]]) -> None:
        """Delete the offsets of deleted topics (name, id), over several turns of the loop if there are many."""
        self._forget(self._forget_topics(topics))

    def _forget(self, forgetting: Steps[None]) -> None:
        """Start deleting offsets; log an unexpected exception, which must not reach the caller."""
        try:
            rest = start_steps(forgetting, self._loop)
        except InvariantError:
            raise
        except Exception:
            _log.exception(_NOT_FORGOTTEN)
            return
        if rest is not None:
            task = asyncio.ensure_future(rest, loop=self._loop)
            self._tasks.add(task)
            task.add_done_callback(self._forgotten)

    def _forget_topics(self, topics: list[tuple[str, bytes]]) -> Steps[None]:
        for host in list(self._hosts.values()):
            yield from host.forget_topics(topics)

    def _forgotten(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error(_NOT_FORGOTTEN, exc_info=error)

    def _host(self, index: int, leader_epoch: int) -> None:
        # Imported here: a broker without groups starts faster.
        from broker.coordinator.group.shard import GroupCoordinatorShard

        name = f"{OFFSETS_TOPIC}-{index}"
        host = GroupHost(
            name, GroupCoordinatorShard(index), self._open_journal(index), leader_epoch, self._loop, self._turn
        )
        self._hosts[index] = host
        if host.is_empty:
            host.serve()
            return
        load = self._loop.create_task(self._load(host))
        self._tasks.add(load)
        load.add_done_callback(self._tasks.discard)

    async def _load(self, host: GroupHost) -> None:
        try:
            await host.load()
        except Exception as error:  # a half-loaded shard would refuse its clients forever
            index = host.shard.partition
            is_bug = not isinstance(error, KafkaError | DecodeError | OSError)
            why = reason(error)
            failure = f"The groups of {OFFSETS_TOPIC}-{index} cannot be loaded: {why}"
            _log.error("%s", failure, exc_info=is_bug)
            if self._hosts.get(index) is host:
                self.leadership_changed(index, None)
                self.failures[index] = failure
        else:
            self._forget(host.forget_topics_deleted_meanwhile())

    # Time.

    def _turn(self) -> GroupContext:
        return GroupContext(self._loop.time(), self._now_ms(), self.settings, self._timers, self._random, _log)

    def _fire_due(self) -> None:
        now = self._loop.time()
        try:
            for _ in range(_EVENTS_A_TURN):
                event = self._timers.pop_due(now)
                if event is None:
                    break
                self._fire(event)
        finally:
            self._alarm.schedule_at(self._timers.next_at)

    def _fire(self, event: tuple[Any, ...]) -> None:
        """Handle a timer event of a group; log an unexpected exception, which must not stop other groups' events."""
        try:
            host = self._hosts.get(self.partition_of(event[1]))
            if host is not None and host.ready:
                turn = self._turn()
                host.shard.fire(turn, event)
                host.perform(turn)
        except InvariantError:
            raise
        except Exception:
            _log.exception("The %s timer of group %s failed", event[0], event[1])

    async def expire(self) -> None:
        """Delete expired offsets, and empty groups without any."""
        for host in list(self._hosts.values()):
            await host.expire()
