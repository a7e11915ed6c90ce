"""A `Node` that coordinates groups: the real coordinator on real `__consumer_offsets` partitions, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

from broker.coordinator.group.context import Join, Leaving, Sync
from broker.coordinator.group.group_coordinator import GroupCoordinator
from broker.coordinator.group.records import kind_of, read_group, read_group_key, read_offset, read_offset_key
from broker.coordinator.group.shard import Commit, Offset
from broker.coordinator.runtime.context import ProducerIdAndEpoch
from controller.topic_names import CONSUMER_OFFSETS
from protocol.api import ApiKey, response_class
from protocol.errors import ErrorCode, KafkaError
from storage.log.config import LogConfig
from storage.log.producer_state import COORDINATOR, AppendOrigin
from tests.unit.broker.node import NODE_ID, Node

FOLLOWER_ID = 2
PARTITIONS = 3
PRODUCER = ProducerIdAndEpoch(7, 0)


class GroupNode:
    """The node, its coordinator, and the steps that tests repeat."""

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def groups(self) -> GroupCoordinator:
        return self.node.broker.groups

    def host(self, *, replicated: bool = False, min_isr: int = 1) -> GroupNode:
        """Create the topic and coordinate; if replicated, nothing is committed until `replicate`."""
        replicas = (NODE_ID, FOLLOWER_ID) if replicated else (NODE_ID,)
        config = LogConfig(min_insync_replicas=min_isr)
        self.node.create(CONSUMER_OFFSETS, partitions=PARTITIONS, replicas=replicas, config=config)
        return self

    def restart(self) -> None:
        """Restart the coordinator from the logs."""
        self.groups.runtime.stop()
        self.node.broker.group_coordinator = None
        self.node.replicas.on_leadership(CONSUMER_OFFSETS, self.groups.runtime.leadership_changed)

    def replicate(self) -> None:
        """Let the follower fetch to the log end."""
        for index in range(PARTITIONS):
            partition = self.node.partition(CONSUMER_OFFSETS, index)
            self.node.follower_fetch(partition, FOLLOWER_ID, partition.log.log_end_offset, 0)
        self.settle()

    def settle(self) -> None:
        """Run all callbacks that are ready."""
        self.node.pass_time(0)
        self.node.pass_time(0)

    def fail_appends(self) -> None:
        """Shrink the ISR below min.insync.replicas (2), so that every append fails."""
        for index in range(PARTITIONS):
            self.node.elect(CONSUMER_OFFSETS, NODE_ID, isr=[NODE_ID], index=index)

    def allow_appends(self) -> None:
        """Restore the full ISR."""
        for index in range(PARTITIONS):
            self.node.elect(CONSUMER_OFFSETS, NODE_ID, isr=[NODE_ID, FOLLOWER_ID], index=index)

    def wait(self, outcome: Any) -> Any:
        """Return the outcome once it is there; a KafkaError as its code."""
        try:
            return self.node.wait(outcome)
        except KafkaError as error:
            return error.code

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        """Call the coordinator; return the outcome or the code of its KafkaError."""
        try:
            return self.wait(getattr(self.groups, name)(*args, **options))
        except KafkaError as error:
            return error.code

    def answer(self, api: ApiKey, version: int, /, **fields: Any) -> Any:
        """Send a request to its handler; return the response as decoded by a client of that version."""
        response = self.node.answer(api, version, "c", **fields)
        return response_class(api).decode(response.encode(version), version)

    # Requests in short form.

    def join(self, member_id: str = "", group: str = "g", *, instance: str | None = None, **changes: Any) -> Any:
        request = Join(
            group, member_id, instance, "c", "/127.0.0.1", 10_000, 60_000, "consumer", {"range": b"m"}, "", False, True
        )
        return self.groups.join(request._replace(**changes))

    def sync(
        self, member_id: str, generation: int, group: str = "g", *, instance: str | None = None, **reported: Any
    ) -> Any:
        return self.groups.sync(Sync(group, member_id, instance, generation, None, None, reported.get("to", {})))

    def leave(self, *members: str, group: str = "g") -> Any:
        return self.groups.leave(group, [Leaving(member, None, "") for member in members])

    def commit(
        self, offset: int = 5, topic: str = "t", partition: int = 0, group: str = "g", **client_fields: Any
    ) -> Any:
        committer = Commit(group, "", None, -1)._replace(**client_fields)
        offsets = [Offset(topic, bytes(16), partition, offset, -1, "")]
        return self.groups.commit(committer, offsets, retention_ms=-1, reports_unknown_group=True)

    def txn_commit(
        self,
        offset: int = 5,
        topic: str = "t",
        partition: int = 0,
        group: str = "g",
        *,
        producer: ProducerIdAndEpoch = PRODUCER,
        **client_fields: Any,
    ) -> Any:
        """Commit in the transaction of `producer`, which counts as verified; return a task."""
        committer = Commit(group, "", None, -1)._replace(**client_fields)
        offsets = [Offset(topic, bytes(16), partition, offset, -1, "")]

        async def verify(_index: int) -> AppendOrigin:
            return COORDINATOR

        committing = self.node.loop.create_task(self.groups.commit_transactional(committer, producer, offsets, verify))
        self.settle()
        return committing

    def end_transaction(
        self, committed: bool = True, group: str = "g", *, producer: ProducerIdAndEpoch = PRODUCER
    ) -> Any:
        """Write the marker of the producer's transaction; return the outcome."""
        index = self.groups.runtime.partition_of(group)
        return self.groups.complete_transaction(index, *producer, 0, committed, 0)

    def is_pending(self, topic: str = "t", partition: int = 0, group: str = "g") -> bool:
        """Return whether an open transaction commits an offset."""
        return self.groups.shard_of(group).offsets.is_pending((group, topic, partition))

    def stable_member(self, group: str = "g", *, instance: str | None = None, **changes: Any) -> str:
        """Form a stable group of one member; return its id."""
        joined = self.wait(self.join(group=group, instance=instance, **changes))
        assert joined.error == ErrorCode.NONE, joined
        synced = self.wait(
            self.sync(joined.member_id, joined.generation, group, instance=instance, to={joined.member_id: b"all"})
        )
        assert synced.assignment == b"all", synced
        result: str = joined.member_id
        return result

    def offset(self, topic: str = "t", partition: int = 0, group: str = "g") -> int | None:
        """Return a committed offset."""
        shard = self.call("committed_shard", group)
        committed = shard.fetch(group, topic, bytes(16), partition)
        return None if committed is None else committed.offset

    def state(self, group: str = "g") -> str | None:
        found = self.groups.shard_of(group).groups.get(group)
        return None if found is None else found.state

    def records(self, group: str = "g") -> list[str]:
        """Return the records of the group's partition in short form."""
        index = self.groups.runtime.partition_of(group)
        return [_describe(record.key, record.value) for record in self.node.stored(CONSUMER_OFFSETS, index)]


def _describe(key: bytes | None, value: bytes | None) -> str:
    assert key is not None
    if kind_of(key) == 2:
        name = read_group_key(key)
        if value is None:
            return f"group {name} deleted"
        group = read_group(name, value, 0)
        return f"group {name} generation {group.generation} members {len(group.members)}"
    name, topic, partition = read_offset_key(key)
    what = "deleted" if value is None else str(read_offset(value, -1).offset)
    return f"offset {name} {topic}-{partition} {what}"


def pending(outcome: Any) -> bool:
    """Return whether an outcome is still missing."""
    return isinstance(outcome, asyncio.Future) and not outcome.done()
