"""A client that looks up offsets: by timestamp, of the largest timestamp, and the end of a leader epoch.

The response of the partition's leader must include what the history knew when the request was sent. Records before the
largest possible log start, and those that compaction may have removed, need not be found.
"""

from __future__ import annotations

from typing import Any

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from simulation.violation import Invariant
from tests.simulation.client import Client, Lost
from tests.simulation.history import Content, History, PartitionHistory
from tests.simulation.workload import Topic

_MAX_TIMESTAMP = -3


class Lookup:
    """Send one lookup after the other."""

    def __init__(self, client: Client, history: History, topics: list[Topic]) -> None:
        self.client = client
        self.history = history
        self._topics = topics

    async def run(self) -> None:
        while not self.client.world.stopping:
            await self.client.pause(0.1)
            topic = self.client.random.choice(self._topics)
            index = self.client.random.randrange(topic.partitions)
            look = self.client.random.choice((self._time, self._time, self._largest, self._epoch))
            try:
                await look(topic, index, self.history.partition(topic.name, index))
            except Lost:
                self.client.forget()

    async def _list(self, topic: Topic, index: int, timestamp: int) -> Any:
        """Return the leader's response; None if another broker may lead."""
        wanted = ListOffsetsRequest.Topic.Partition(partition_index=index, timestamp=timestamp)
        topics = [ListOffsetsRequest.Topic(name=topic.name, partitions=[wanted])]
        return await self._query(topic, index, ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=topics)

    async def _query(self, topic: Topic, index: int, key: ApiKey, version: int, **fields: Any) -> Any:
        world = self.client.world
        address = await self.client.leader(topic.name, index)
        await self.client.link(address)
        epoch = world.leader_epoch(address, topic.name, index)
        answer = await self.client.call(address, key, version, **fields)
        [[one]] = [found.partitions for found in answer.topics]
        led = 0 <= epoch == world.leader_epoch(address, topic.name, index)
        if one.error_code != ErrorCode.NONE or not led:
            self.client.forget()
            return None
        world.count(f"lookups by {key.name}")
        return one

    async def _time(self, topic: Topic, index: int, known: PartitionHistory) -> None:
        """Look up the first record at or after the timestamp of a known one."""
        before = dict(known.records)
        if not before:
            return
        timestamp = self.client.random.choice(list(before.values())).timestamp_ms + self.client.random.choice((0, 0, 1))
        found = await self._list(topic, index, timestamp)
        if found is None:
            return
        name = f"{topic.name}-{index}: the offset of {timestamp} is {found.offset}"
        self._compare(found, known, name)
        self.client.world.check(
            Invariant.TIMES_ARE_FOUND, found.offset < 0 or found.timestamp >= timestamp, f"{name}, {found.timestamp}"
        )
        for offset, content in self._lasting(topic, known, before):
            if content.timestamp_ms >= timestamp:
                self.client.world.check(
                    Invariant.TIMES_ARE_FOUND,
                    0 <= found.offset <= offset,
                    f"{name}, and {offset} is of {content.timestamp_ms}",
                )

    async def _largest(self, topic: Topic, index: int, known: PartitionHistory) -> None:
        before = dict(known.records)
        found = await self._list(topic, index, _MAX_TIMESTAMP)
        if found is None or found.offset < 0:
            return  # as in Kafka, there is none if the record is not committed yet
        name = f"{topic.name}-{index}: the largest timestamp is {found.timestamp}, at {found.offset}"
        self._compare(found, known, name)
        for offset, content in self._lasting(topic, known, before):
            self.client.world.check(
                Invariant.TIMES_ARE_FOUND,
                content.timestamp_ms <= found.timestamp,
                f"{name}, and {offset} is of {content.timestamp_ms}",
            )

    def _compare(self, found: Any, known: PartitionHistory, name: str) -> None:
        content = known.records.get(found.offset)
        self.client.world.check(
            Invariant.TIMES_ARE_FOUND, content is None or content.timestamp_ms == found.timestamp, f"{name}: {content}"
        )

    def _lasting(self, topic: Topic, known: PartitionHistory, before: dict[int, Content]) -> list[tuple[int, Content]]:
        """Return the records of `before` that must still exist and be committed: acks=1 promises neither."""
        if topic.compacted:
            return []
        start = known.start_ceiling
        return [
            (at, one)
            for at, one in before.items()
            if at >= start and known.records.get(at) == one and at not in known.soft
        ]

    async def _epoch(self, topic: Topic, index: int, known: PartitionHistory) -> None:
        """Look up the end of a record's leader epoch: after the record, and not after one of a later epoch.

        If compaction removed the first batches of an epoch, the epoch of a replica that copies the log afterwards
        starts at the first remaining batch; if it removed all of them, that replica lacks the epoch, as in Kafka.
        """
        if not known.epochs:
            return
        offset = self.client.random.choice(list(known.epochs))
        epoch = known.epochs[offset]
        partition = OffsetForLeaderEpochRequest.Topic.Partition(partition=index, leader_epoch=epoch)
        topics = [OffsetForLeaderEpochRequest.Topic(topic=topic.name, partitions=[partition])]
        one = await self._query(topic, index, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=topics)
        if one is None or offset < known.start_ceiling or known.epochs.get(offset) != epoch:
            return
        if topic.compacted:
            exact, later = one.leader_epoch <= epoch, one.end_offset
        else:
            exact = one.leader_epoch == epoch
            later = min((at for at, other in known.epochs.items() if other > epoch), default=one.end_offset)
        self.client.world.check(
            Invariant.EPOCHS_END,
            exact and offset < one.end_offset <= later,
            f"{topic.name}-{index}: {offset} is of epoch {epoch}, {later} of a later one, and epoch {one.leader_epoch}"
            f" ends at {one.end_offset}",
        )
