"""An administrator that reassigns partitions, and moves leadership back to the preferred replicas.

A reassignment is completed, cancelled, or left under way while the next begins. Only preferred leaders are elected,
since an unclean election loses acknowledged records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controller.topic_names import CONSUMER_OFFSETS
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from simulation.violation import Invariant
from tests.simulation.client import Client, Lost
from tests.simulation.workload import PATIENCE, Topic

_PREFERRED = 0
_MOVES = PATIENCE | {ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
_ELECTIONS = PATIENCE | {ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


class Reassigner:
    """Reassign partitions and elect preferred leaders."""

    def __init__(self, client: Client, topics: list[Topic], brokers: list[int], internal: Sequence[str] = ()) -> None:
        """`internal` are internal topics in addition to that of the groups' offsets."""
        self.client = client
        offsets = client.world.hosts[0].settings["offsets.topic.num.partitions"]
        self._partitions = [(topic.name, index) for topic in topics for index in range(topic.partitions)]
        self._partitions += [(CONSUMER_OFFSETS, index) for index in range(offsets)]
        state = client.world.hosts[0].settings["transaction.state.log.num.partitions"]
        self._partitions += [(topic, index) for topic in internal for index in range(state)]
        self._brokers = brokers

    async def run(self) -> None:
        while not self.client.world.stopping:
            await self.client.pause(0.25)
            topic, index = self.client.random.choice(self._partitions)
            try:
                if self.client.random.random() < 0.3:
                    await self._elect(topic, index)
                else:
                    await self._move(topic, index)
            except Lost:
                self.client.forget()

    async def _move(self, topic: str, index: int) -> None:
        random = self.client.random
        factor = random.choice((min(3, len(self._brokers)), min(3, len(self._brokers)), 2))
        target = random.sample(self._brokers, factor)
        if any(host.lost for host in self.client.world.hosts):
            return  # the remaining replicas would be those that lost data
        targets = self.client.world.targets.setdefault((topic, index), [])
        targets.append(frozenset(target))
        code = await self._alter(topic, index, target)
        if code is not ErrorCode.NONE:
            targets.pop()
            return
        del targets[:-1]
        self.client.world.count("reassignments")
        if random.random() < 0.3:
            if await self._alter(topic, index, None) is ErrorCode.NONE:
                targets.clear()
                self.client.world.count("cancelled reassignments")
            return
        for _ in range(random.choice((0, 3, 10))):
            await self.client.pause(0.1)
            if not await self._moving(topic, index):
                self.client.world.count("reassignments that were seen to end")
                return

    async def _alter(self, topic: str, index: int, replicas: list[int] | None) -> ErrorCode:
        partition = AlterPartitionReassignmentsRequest.Topic.Partition(partition_index=index, replicas=replicas)
        answer = await self._call(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            1,
            topics=[AlterPartitionReassignmentsRequest.Topic(name=topic, partitions=[partition])],
        )
        codes = [one.error_code for found in answer.responses for one in found.partitions]
        return self._checked(answer.error_code, codes, _MOVES, f"{topic}-{index} is moved to {replicas}")

    async def _moving(self, topic: str, index: int) -> bool:
        wanted = [ListPartitionReassignmentsRequest.Topic(name=topic, partition_indexes=[index])]
        answer = await self._call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=wanted)
        self._checked(answer.error_code, [], PATIENCE, "reassignments are listed")
        return bool(answer.topics)

    async def _elect(self, topic: str, index: int) -> None:
        wanted = [ElectLeadersRequest.Topic(topic=topic, partitions=[index])]
        answer = await self._call(ApiKey.ELECT_LEADERS, 2, election_type=_PREFERRED, topic_partitions=wanted)
        codes = [one.error_code for found in answer.replica_election_results for one in found.partition_result]
        if self._checked(answer.error_code, codes, _ELECTIONS, f"{topic}-{index} is led again") is ErrorCode.NONE:
            self.client.world.count("preferred leaders elected")

    async def _call(self, key: ApiKey, version: int, **fields: Any) -> Any:
        return await self.client.call(self.client.any_broker(), key, version, timeout_ms=1000, **fields)

    def _checked(self, code: int, codes: list[int], expected: frozenset[ErrorCode], what: str) -> ErrorCode:
        """Return the error code of one partition; it must be NONE or one of `expected`."""
        found = ErrorCode(next((one for one in (code, *codes) if one), 0))
        self.client.world.check(
            Invariant.ADMIN_ANSWERS, found is ErrorCode.NONE or found in expected, f"{what}: {found.name}"
        )
        return found
