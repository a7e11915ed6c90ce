"""Hosting of a shard of groups: what deletes committed offsets without a request.

Offsets expire, and those of deleted topics go. Both scan all groups of the shard, so both work in short steps.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker.coordinator.group.context import GroupContext
from broker.coordinator.runtime.shard_host import RECORDS_A_TURN, ShardHost

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.coordinator.group.shard import GroupCoordinatorShard
    from broker.coordinator.runtime.context import Record
    from broker.coordinator.runtime.partition_log import Journal
    from storage.steps import Steps

_GROUPS_A_TURN = 200
# Several steps run in a turn (`broker.runtime.cooperative`).
_RECORDS_A_STEP = 50
_GROUPS_A_STEP = 500


class GroupHost(ShardHost["GroupCoordinatorShard", GroupContext]):
    """A shard of groups with its journal, while this broker leads their partition."""

    __slots__ = ("_deleted_topics",)

    def __init__(
        self,
        name: str,
        shard: GroupCoordinatorShard,
        journal: Journal,
        leader_epoch: int,
        loop: asyncio.AbstractEventLoop,
        new_turn: Callable[[], GroupContext],
    ) -> None:
        super().__init__(name, shard, journal, leader_epoch, loop, new_turn)
        self._deleted_topics: list[tuple[str, bytes]] = []

    async def expire(self) -> None:
        """Write tombstones for expired offsets and empty groups: a whole group in one turn, the groups over several."""
        expired: list[Record] = []
        for looked_at, group_id in enumerate(list(self.shard.groups), 1):
            group = self.shard.groups.get(group_id)
            if self.ready and group is not None:
                expired += self.shard.expire(self._new_turn(), group)
            if looked_at % _GROUPS_A_TURN == 0 or len(expired) >= RECORDS_A_TURN:
                self.write_aside(expired)
                expired = []
                await asyncio.sleep(0)
        self.write_aside(expired)

    def forget_topics(self, topics: list[tuple[str, bytes]]) -> Steps[None]:
        """Write tombstones for offsets of deleted topics (name, id), some groups a step; while loading, defer that."""
        if not self.ready:
            self._deleted_topics += topics
            return
        for topic, topic_id in topics:
            found: list[Record] = []
            for looked_at, group_id in enumerate(self.shard.offsets.group_ids(), 1):
                if not self.open:
                    return
                found += self.shard.forget_topic(topic, topic_id, (group_id,))
                if looked_at % _GROUPS_A_STEP == 0 or len(found) >= _RECORDS_A_STEP:
                    self.write_aside(found)
                    found = []
                    yield None
            if found:
                self.write_aside(found)
                yield None

    def forget_topics_deleted_meanwhile(self) -> Steps[None]:
        """Write tombstones for the offsets of topics deleted while the shard was loading."""
        topics, self._deleted_topics = self._deleted_topics, []
        yield from self.forget_topics(topics)
