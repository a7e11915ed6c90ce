"""The offsets that groups have committed, for one partition of `__consumer_offsets` (Kafka: `OffsetMetadataManager`).

Offsets committed in a transaction are *pending* under its producer id until the transaction's marker: not returned, but
known, so that a fetch of stable offsets can return UNSTABLE_OFFSET_COMMIT (KIP-447). A tombstone removes both kinds.

An offset expires (KIP-186, KIP-211) after its retention, counted
  - for a group without members, from the time it became empty;
  - for a stable group of consumers, from the commit, and only for topics without a subscription;
  - for a simple group, from the commit;
and never during a rebalance. An offset committed with its own retention (OffsetCommit up to version 4) uses that
instead.
"""

from collections.abc import Mapping
from typing import NamedTuple

from broker.coordinator.group.classic_group import EMPTY, STABLE, ClassicGroup
from protocol.primitives import ZERO_UUID


class Committed(NamedTuple):
    """A committed offset; `record_offset`, its offset in the partition, orders transactional commits."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: bytes = ZERO_UUID
    record_offset: int = -1

    def is_of(self, topic_id: bytes) -> bool:
        """Return whether it was committed for the topic with this id, as far as both ids are known."""
        return self.topic_id in (topic_id, ZERO_UUID) or topic_id == ZERO_UUID


Key = tuple[str, str, int]
"""Group, topic and partition."""


class Offsets:
    """Committed offsets by group, topic and partition."""

    __slots__ = ("_groups", "_pending", "_producers")

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, Committed]]] = {}
        self._pending: dict[int, dict[Key, Committed]] = {}
        # The producers of pending offsets, by group and key; the values are ordered sets.
        self._producers: dict[str, dict[Key, dict[int, None]]] = {}

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        """Return the group's committed offset for one partition."""
        return self._groups.get(group_id, {}).get(topic, {}).get(partition)

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, Committed]]:
        """Return all committed offsets of the group, by topic and partition."""
        return self._groups.get(group_id, {})

    def group_ids(self) -> list[str]:
        """Return the groups with offsets, pending or not."""
        return list(dict.fromkeys((*self._groups, *self._producers)))

    def of_topic(self, topic: str, topic_id: bytes, group_id: str) -> list[Key]:
        """Return the keys of the group's offsets for the topic with this id, pending or not."""
        found = {
            (group_id, topic, partition): committed
            for partition, committed in self._groups.get(group_id, {}).get(topic, {}).items()
        }
        for key, producers in self._producers.get(group_id, {}).items():
            if key[1] == topic:
                found[key] = self._pending[next(reversed(producers))][key]
        return [key for key, committed in found.items() if committed.is_of(topic_id)]

    def put(self, key: Key, committed: Committed, producer_id: int = -1) -> None:
        """Store a commit; with a producer id it is pending until that producer's transaction ends."""
        if producer_id >= 0:
            self._pending.setdefault(producer_id, {})[key] = committed
            self._producers.setdefault(key[0], {}).setdefault(key, {})[producer_id] = None
            return
        group_id, topic, partition = key
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed

    def remove(self, key: Key) -> None:
        """Remove the offsets under `key`, pending or not."""
        for producer_id in tuple(self._producers.get(key[0], {}).get(key, ())):
            self._forget_pending(key, producer_id)
            del self._pending[producer_id][key]
        group_id, topic, partition = key
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic, {})
        if partitions.pop(partition, None) is None:
            return
        if not partitions:
            del topics[topic]
        if not topics:
            del self._groups[group_id]

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Apply a producer's pending offsets, except where a newer commit exists, or drop them."""
        for key, offset in self._pending.pop(producer_id, {}).items():
            self._forget_pending(key, producer_id)
            if committed:
                current = self.get(*key)
                if current is None or current.record_offset < offset.record_offset:
                    self.put(key, offset)

    def _forget_pending(self, key: Key, producer_id: int) -> None:
        keys = self._producers[key[0]]
        del keys[key][producer_id]
        if not keys[key]:
            del keys[key]
        if not keys:
            del self._producers[key[0]]

    def is_pending(self, key: Key) -> bool:
        """Return whether an open transaction commits an offset under `key`."""
        return key in self._producers.get(key[0], ())

    def pending_of_group(self, group_id: str) -> set[Key]:
        """Return the keys of a group's pending offsets."""
        return set(self._producers.get(group_id, ()))

    def expired(self, group: ClassicGroup, now_ms: int, retention_ms: int) -> tuple[list[Key], bool]:
        """Return the keys of the expired offsets of `group`, and whether no offset remains after them."""
        topics = self.of_group(group.group_id)
        pending = self.pending_of_group(group.group_id)
        if not _may_expire(group):
            return [], not topics and not pending
        since_ms = group.state_timestamp_ms if group.state == EMPTY and group.protocol_type is not None else None
        keys = []
        count = 0
        for topic, partitions in topics.items():
            count += len(partitions)
            if group.subscribes_to(topic):
                continue
            for partition, committed in partitions.items():
                key = (group.group_id, topic, partition)
                if key not in pending and _is_expired(committed, since_ms, now_ms, retention_ms):
                    keys.append(key)
        return keys, len(keys) == count and not pending


def _may_expire(group: ClassicGroup) -> bool:
    if group.state == EMPTY or group.protocol_type is None:
        return True
    return group.state == STABLE and group.subscribed_topics is not None


def _is_expired(committed: Committed, since_ms: int | None, now_ms: int, retention_ms: int) -> bool:
    if committed.expire_timestamp_ms >= 0:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - (committed.commit_timestamp_ms if since_ms is None else since_ms) >= retention_ms
