"""Consumer groups: offset committers, and members that join, leave, and get assignments from their group leader."""

from __future__ import annotations

from typing import Any

from broker.coordinator.runtime.coordinator_runtime import partition_for
from controller.topic_names import CONSUMER_OFFSETS
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sync_group import SyncGroupRequest
from simulation.cluster import World
from simulation.violation import Invariant
from tests.simulation.client import Client, Lost
from tests.simulation.history import GroupHistory, History
from tests.simulation.workload import PATIENCE, Topic

_REJOIN = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)


def is_retriable_for(world: World, code: ErrorCode) -> bool:
    """Return whether a client retries after this error; a coordinator with a failed disk cannot load its groups."""
    unreadable = code is ErrorCode.UNKNOWN_SERVER_ERROR and any(host.faulty for host in world.hosts)
    return code in PATIENCE or unreadable


def commit_topics(topic: Topic, index: int, offset: int) -> list[Any]:
    partition = OffsetCommitRequest.Topic.Partition(
        partition_index=index, committed_offset=offset, committed_metadata=""
    )
    return [OffsetCommitRequest.Topic(name=topic.name, topic_id=topic.topic_id, partitions=[partition])]


class Committer:
    """Commit increasing offsets for a group without members, and read them back."""

    def __init__(self, client: Client, history: History, topic: Topic) -> None:
        self.client = client
        self.history = history
        self.topic = topic
        self.group = f"group of {client.name}"
        self._next = 0

    async def run(self) -> None:
        while not self.client.world.stopping:
            index = self.client.random.randrange(self.topic.partitions)
            chance = self.client.random.random()
            if chance < 0.6:
                await self.commit(index)
            elif chance < 0.64:
                await self.delete()
            else:
                await self.read(index)
            await self.client.pause(0.1)

    async def commit(self, index: int) -> bool:
        known = self.history.commit(self.group, self.topic.name, index)
        self._next += 1
        known.ceiling = offset = self._next
        cuts_before = self.client.world.power_cuts
        try:
            address = await self.client.coordinator(self.group)
            answer = await self.client.call(
                address,
                ApiKey.OFFSET_COMMIT,
                8,
                group_id=self.group,
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=commit_topics(self.topic, index, offset),
            )
        except Lost:
            known.lost.add(offset)
            self.client.forget()
            return False
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        if code is not ErrorCode.NONE:
            known.lost.add(offset)
            expected = is_retriable_for(self.client.world, code)
            self.client.world.check(
                Invariant.GROUP_ANSWERS, expected, f"{self.client.name} got {code.name} for an OffsetCommit"
            )
            self.client.forget()
            return False
        if self.history.always or cuts_before == self.client.world.power_cuts:
            known.floor = offset
        self.client.world.count("commits")
        return True

    async def delete(self) -> None:
        """Delete the group with all its committed offsets."""
        known = [self.history.commit(self.group, self.topic.name, index) for index in range(self.topic.partitions)]
        cuts_before = self.client.world.power_cuts
        try:
            address = await self.client.coordinator(self.group)
            answer = await self.client.call(address, ApiKey.DELETE_GROUPS, 2, groups_names=[self.group])
        except Lost:
            for one in known:
                one.unsure = True
            self.client.forget()
            return
        [result] = answer.results
        code = ErrorCode(result.error_code)
        expected = code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
        for one in known:
            one.unsure = one.unsure or not expected
            if code is ErrorCode.NONE:
                one.delete()
                if not self.history.always and cuts_before != self.client.world.power_cuts:
                    one.deleted = -1
        self.client.world.count("deletions of groups", code is ErrorCode.NONE)
        waited_out = is_retriable_for(self.client.world, code)
        self.client.world.check(
            Invariant.GROUP_ANSWERS, expected or waited_out, f"{self.client.name} got {code.name} for DeleteGroups"
        )
        if not expected:
            self.client.forget()

    async def read(self, index: int) -> bool:
        known = self.history.commit(self.group, self.topic.name, index)
        floor, deleted = known.floor, known.deleted
        wanted = OffsetFetchRequest.Group.Topic(name=self.topic.name, partition_indexes=[index])
        groups = [OffsetFetchRequest.Group(group_id=self.group, topics=[wanted])]
        offsets = partition_for(self.group, self.client.world.hosts[0].settings["offsets.topic.num.partitions"])
        try:
            address = await self.client.coordinator(self.group)
            if self.client.world.clustered and self.client.world.leader_epoch(address, CONSUMER_OFFSETS, offsets) < 0:
                floor = deleted = -1  # a coordinator that does not know its successor yet returns what it has
            answer = await self.client.call(address, ApiKey.OFFSET_FETCH, 8, groups=groups)
        except Lost:
            self.client.forget()
            return False
        [group] = answer.groups
        code = ErrorCode(group.error_code)
        if code is not ErrorCode.NONE:
            expected = is_retriable_for(self.client.world, code)
            self.client.world.check(
                Invariant.GROUP_ANSWERS, expected, f"{self.client.name} got {code.name} for an OffsetFetch"
            )
            self.client.forget()
            return False
        [one] = group.topics[0].partitions
        if one.error_code == ErrorCode.NONE:
            known.read(one.committed_offset, floor, deleted)
        return True


class Member:
    """A member of a group that joins again and again."""

    def __init__(self, client: Client, history: History, topic: Topic, group: str) -> None:
        self.client = client
        self.topic = topic
        self.group = group
        self._all = history
        self._member_id = ""

    @property
    def history(self) -> GroupHistory:
        return self._all.group(self.group)

    async def run(self) -> None:
        while not self.client.world.stopping:
            try:
                await self._life()
            except Lost:
                self.client.forget()
            await self.client.pause(0.2)

    async def _call(self, key: ApiKey, version: int, **fields: Any) -> Any:
        address = await self.client.coordinator(self.group)
        return await self.client.call(address, key, version, group_id=self.group, **fields)

    def _goes_on(self, code: int, what: str) -> bool:
        """Return whether the error code is NONE; handle any other."""
        error = ErrorCode(code)
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        waited_out = is_retriable_for(self.client.world, error)
        if waited_out:
            self.client.forget()
        expected = error is ErrorCode.NONE or error in _REJOIN or waited_out
        self.client.world.check(Invariant.GROUP_ANSWERS, expected, f"{self.client.name} got {error.name} for a {what}")
        return error is ErrorCode.NONE

    async def _life(self) -> None:
        """Join, receive an assignment, then heartbeat and commit until the member has to rejoin."""
        known = self.history
        joined = await self._join()
        if joined is None or self.history is not known:
            return
        generation = joined.generation_id
        assignments = {}
        if joined.leader == self._member_id:
            for member in joined.members:
                assignments[member.member_id] = b"%d of %s" % (generation, member.member_id.encode())
            known.assigning(generation, assignments)
        synced = await self._call(
            ApiKey.SYNC_GROUP,
            3,
            generation_id=generation,
            member_id=self._member_id,
            assignments=[
                SyncGroupRequest.Assignment(member_id=member, assignment=data) for member, data in assignments.items()
            ],
        )
        if not self._goes_on(synced.error_code, "SyncGroup"):
            return
        if self.history is known:  # otherwise the group was created anew, having lost its state
            known.led(generation, joined.leader)  # a generation exists once it is stored with its assignment
            known.assigned(generation, self._member_id, bytes(synced.assignment))
        self.client.world.count("assignments")
        while not self.client.world.stopping:
            await self.client.pause(0.2)
            if self.client.random.random() < 0.4:
                if self.client.random.random() < 0.2:
                    await self._commit(generation - 1)  # as a member of an earlier generation would
                if not await self._commit(generation):
                    return
            else:
                answer = await self._call(ApiKey.HEARTBEAT, 3, generation_id=generation, member_id=self._member_id)
                if not self._goes_on(answer.error_code, "Heartbeat"):
                    return
            if self.client.random.random() < 0.02:
                await self._call(ApiKey.LEAVE_GROUP, 2, member_id=self._member_id)
                self._member_id = ""
                return

    async def _join(self) -> Any:
        protocol = JoinGroupRequest.Protocol(name="range", metadata=b"")
        answer = await self._call(
            ApiKey.JOIN_GROUP,
            5,
            session_timeout_ms=3000,
            rebalance_timeout_ms=2000,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            return None
        if not self._goes_on(answer.error_code, "JoinGroup"):
            return None
        self._member_id = answer.member_id
        return answer

    async def _commit(self, generation: int) -> bool:
        known, latest = self.history, self.history.generation
        answer = await self._call(
            ApiKey.OFFSET_COMMIT,
            8,
            generation_id_or_member_epoch=generation,
            member_id=self._member_id,
            topics=commit_topics(self.topic, 0, generation),
        )
        code = answer.topics[0].partitions[0].error_code
        if generation < latest and code == ErrorCode.ILLEGAL_GENERATION:
            return False
        if self._goes_on(code, "OffsetCommit"):
            if self.history is known:
                known.committed(generation, latest)
            return True
        return False
