"""Members of a consumer group that join and sync by single requests, in the loop of a controlled broker."""

from __future__ import annotations

import asyncio
from typing import Any

from protocol.api import ApiKey
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.records.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tests.unit.broker.control.controlled_broker import ControlledBroker

_FIND_VERSION, _JOIN_VERSION, _SYNC_VERSION, _COMMIT_VERSION, _HEARTBEAT_VERSION = 3, 3, 3, 7, 3
_ASSIGNOR = "range"


class OneMember:
    """One member; the leader assigns each member partition 0 of the topic."""

    def __init__(self, broker: ControlledBroker, group: str, topic: str = "t") -> None:
        self.broker = broker
        self.group = group
        self.topic = topic
        self.member_id = ""
        self.generation = -1

    async def join(self) -> Any:
        """Send JoinGroup and return the response; at first, find the coordinator, which creates its topic."""
        if not self.member_id:
            await self.broker.query(ApiKey.FIND_COORDINATOR, _FIND_VERSION, key=self.group)
        subscription = ConsumerProtocolSubscription(topics=[self.topic])
        response = await self.broker.query(
            ApiKey.JOIN_GROUP,
            _JOIN_VERSION,
            group_id=self.group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequest.Protocol(name=_ASSIGNOR, metadata=b"\x00\x00" + subscription.encode(0)),
            ],
        )
        self.member_id, self.generation = response.member_id, response.generation_id
        return response

    async def sync(self, joined: Any) -> None:
        """Send SyncGroup, with everybody's assignment if this member leads."""
        part = ConsumerProtocolAssignment.TopicPartition(topic=self.topic, partitions=[0])
        assignment = b"\x00\x00" + ConsumerProtocolAssignment(assigned_partitions=[part]).encode(0)
        await self.broker.query(
            ApiKey.SYNC_GROUP,
            _SYNC_VERSION,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=[
                SyncGroupRequest.Assignment(member_id=one.member_id, assignment=assignment) for one in joined.members
            ],
        )

    async def enter(self) -> None:
        """Join and sync."""
        await self.sync(await self.join())

    async def commit(self, offset: int, partition: int = 0) -> None:
        """Commit an offset."""
        row = OffsetCommitRequest.Topic.Partition(
            partition_index=partition, committed_offset=offset, committed_metadata=None
        )
        await self.broker.query(
            ApiKey.OFFSET_COMMIT,
            _COMMIT_VERSION,
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequest.Topic(name=self.topic, partitions=[row])],
        )

    async def heartbeat(self) -> int:
        """Send Heartbeat and return the error code."""
        response = await self.broker.query(
            ApiKey.HEARTBEAT,
            _HEARTBEAT_VERSION,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
        )
        code: int = response.error_code
        return code


def enter(*members: OneMember) -> None:
    """Let the members form one generation, the first of them alone at first."""

    async def body() -> None:
        first, *others = members
        await first.enter()
        for number, other in enumerate(others, 1):
            joining = asyncio.ensure_future(other.enter())
            while await first.heartbeat() == 0:
                pass
            await asyncio.gather(joining, *(member.enter() for member in members[:number]))

    members[0].broker.wait(body())
