"""The group coordinator: the group APIs as operations on shards of groups (Kafka: `GroupCoordinatorService`).

`runtime.coordinator_runtime` has the shards of the `__consumer_offsets` partitions led here, and routes each group to
its shard; `runtime.shard_host` writes and answers a shard's decisions, and defines `Outcome`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

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
from broker.coordinator.group.shard import Commit, GroupCoordinatorShard, Offset
from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from broker.coordinator.runtime.shard_host import Outcome
from controller.topic_names import CONSUMER_OFFSETS
from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import EndTxnMarker

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable
    from random import Random

    from broker.coordinator.runtime.partition_journal import Journal
    from broker.coordinator.runtime.timers import Timers
    from storage.log.producer_state import AppendOrigin

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
        self.runtime: CoordinatorRuntime[GroupCoordinatorShard, GroupContext] = CoordinatorRuntime(
            CONSUMER_OFFSETS,
            "groups",
            loop=loop,
            partition_count=partition_count,
            new_shard=GroupCoordinatorShard,
            new_context=self._new_context,
            open_journal=open_journal,
        )

    def _new_context(self, timers: Timers) -> GroupContext:
        return GroupContext(self._loop.time(), self._now_ms(), self.settings, timers, self._random, _log)

    def join(self, request: Join) -> Outcome[Joined]:
        """Handle JoinGroup."""
        if not request.group_id:
            return Joined(ErrorCode.INVALID_GROUP_ID, request.member_id)
        limits = self.settings
        if not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
            return Joined(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        host = self.runtime.host_of(request.group_id)
        return host.run_rule(lambda context, to: host.shard.join(context, request, to))

    def sync(self, request: Sync) -> Outcome[Synced]:
        """Handle SyncGroup; the leader's carries the assignments."""
        if not request.group_id:
            return Synced(ErrorCode.INVALID_GROUP_ID)
        host = self.runtime.host_of(request.group_id)
        return host.run_rule(lambda context, to: host.shard.sync(context, request, to))

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Renew a session and return the Heartbeat error code; NONE while the group loads."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        try:
            host = self.runtime.host_of(group_id)
        except KafkaError as error:
            return ErrorCode.NONE if error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error.code
        return host.shard.heartbeat(host.timers, self._loop.time(), group_id, member_id, instance_id, generation)

    def leave(self, group_id: str, members: list[Leaving]) -> Outcome[Left]:
        """Remove members."""
        if not group_id:
            return Left(ErrorCode.INVALID_GROUP_ID)
        host = self.runtime.host_of(group_id)
        return host.run_rule(lambda context, to: host.shard.leave(context, group_id, members, to))

    def commit(
        self, committer: Commit, offsets: list[Offset], *, retention_ms: int, reports_unknown_group: bool
    ) -> Outcome[list[ErrorCode]]:
        """Commit offsets; return an error code for each."""
        return self.runtime.host_of(committer.group_id).write(
            lambda shard, context: shard.commit(
                context, committer, offsets, retention_ms=retention_ms, reports_unknown_group=reports_unknown_group
            )
        )

    async def commit_transactional(
        self,
        committer: Commit,
        producer: ProducerIdAndEpoch,
        offsets: list[Offset],
        verify: Callable[[int], Awaitable[AppendOrigin]],
    ) -> list[ErrorCode]:
        """Commit offsets in a producer's transaction; return an error code for each.

        `verify` verifies the transaction with a partition of `__consumer_offsets`, as in `write_transactional`.
        """
        if not committer.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return await self.runtime.write_transactional(
            committer.group_id,
            verify,
            lambda shard, context: shard.commit_transactional(context, committer, producer, offsets),
        )

    def complete_transaction(
        self,
        index: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        transaction_version: int,
    ) -> Outcome[None]:
        """End a producer's transaction in partition `index`: apply or drop its pending offsets; return once committed.

        KafkaError as `CoordinatorRuntime.complete_transaction`.
        """
        marker = EndTxnMarker(committed, coordinator_epoch)
        producer = ProducerIdAndEpoch(producer_id, producer_epoch)
        return self.runtime.complete_transaction(index, producer, marker, transaction_version)

    def delete_offsets(self, group_id: str, partitions: list[tuple[str, int]]) -> Outcome[list[ErrorCode]]:
        """Delete committed offsets; return an error code for each partition."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return self.runtime.host_of(group_id).write(lambda shard, _: shard.delete_offsets(group_id, partitions))

    def delete_group(self, group_id: str) -> Outcome[ErrorCode]:
        """Delete a group that has no members, with its offsets."""
        return self.runtime.host_of(group_id).write(lambda shard, _: shard.delete_group(group_id))

    def committed_shard(self, group_id: str) -> Outcome[GroupCoordinatorShard]:
        """Return the shard of a group for reading, once all its records are committed."""
        return self.runtime.host_of(group_id).read()

    def shard_of(self, group_id: str) -> GroupCoordinatorShard:
        """Return the shard of a group, to inspect its members."""
        return self.runtime.host_of(group_id).shard

    def shards(self) -> list[GroupCoordinatorShard]:
        """Return all shards hosted here; COORDINATOR_LOAD_IN_PROGRESS if some are not loaded yet."""
        if self.runtime.is_loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self.runtime.active_shards()

    # Without a request.

    def topics_deleted(self, topics: list[tuple[str, bytes]]) -> None:
        """Delete the offsets of deleted topics (name, id)."""
        self.runtime.write_all(
            "Deleting the committed offsets of deleted topics failed", lambda shard, _: shard.forget_topics(topics)
        )

    async def expire(self) -> None:
        """Delete expired offsets, and empty groups without any."""
        await self.runtime.write_all("Deleting expired offsets failed", lambda shard, context: shard.expire(context))
