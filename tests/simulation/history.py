"""The responses that clients received, and what must hold from then on.

A record that was acknowledged with an offset, or read at one, stays there unchanged until its topic is deleted or
DeleteRecords passes it; an idempotent producer's record is stored once. Durability on a single broker:

    acknowledged or read     the process dies     power cut, fsync=always          power cut, fsync=flush
    acks=all, or read        stays                stays                            stays if it was synced
    acks=1                   stays                stays if it was synced           stays if it was synced

In a cluster, acks=all guarantees the same as long as fewer replicas lose unsynced data than are in sync; acks=1
guarantees nothing. The same holds for committed offsets and topics.
"""

from __future__ import annotations

from typing import NamedTuple

from simulation.cluster import World
from simulation.violation import Invariant

ID_HEADER = b"id"


class Content(NamedTuple):
    """A record without its offset, as a producer sent it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    timestamp_ms: int

    @property
    def identity(self) -> bytes:
        """Return the unique identity of the record: producer/life/number."""
        return next((value or b"" for name, value in self.headers if name == ID_HEADER), b"?")

    def __str__(self) -> str:
        return self.identity.decode()


class History:
    """The responses that clients received."""

    def __init__(self, world: World, *, always: bool) -> None:
        """With `always`, records count only once they are synced (fsync=always)."""
        self.world = world
        self.always = always
        self.attempted: dict[Content, bool] = {}
        """Every record that was ever sent, and whether it may occur only once (idempotent)."""
        self.oldest_ms = 2**63
        """The smallest timestamp of a record that was sent: unacknowledged records, too, may expire by retention."""
        self.partitions: dict[tuple[str, int], PartitionHistory] = {}
        self.commits: dict[tuple[str, str, int], CommitHistory] = {}
        self.groups: dict[str, GroupHistory] = {}

    def partition(self, topic: str, index: int) -> PartitionHistory:
        found = self.partitions.get((topic, index))
        if found is None:
            found = self.partitions[topic, index] = PartitionHistory(self, f"{topic}-{index}")
        return found

    def commit(self, group: str, topic: str, index: int) -> CommitHistory:
        found = self.commits.get((group, topic, index))
        if found is None:
            found = self.commits[group, topic, index] = CommitHistory(self.world, f"{group} of {topic}-{index}")
        return found

    def group(self, group: str) -> GroupHistory:
        found = self.groups.get(group)
        if found is None:
            found = self.groups[group] = GroupHistory(self.world, group)
        return found

    def power_cut(self, topics: set[str]) -> None:
        """Forget what a power cut may lose: topics and groups of a cluster of one broker."""
        for (topic, _), partition in self.partitions.items():
            if topic in topics:
                partition.lose(always=self.always)
        if not self.always:
            for commit in self.commits.values():
                commit.floor = commit.deleted = -1
            self.groups = {
                group: GroupHistory(self.world, group, begun_anew=True, has_offset=False) for group in self.groups
            }

    def group_gone(self, group: str) -> None:
        """Forget the generations of a group that its coordinator has deleted, unless it had to keep an offset."""
        known = self.groups.get(group)
        if known is not None and known.may_be_deleted:
            self.groups[group] = GroupHistory(self.world, group, has_offset=False)


class PartitionHistory:
    """The records of a partition of a topic that is never deleted."""

    def __init__(self, history: History, name: str) -> None:
        self._history = history
        self._name = name
        self._check = history.world.check
        self.records: dict[int, Content] = {}
        self.epochs: dict[int, int] = {}
        """The leader epochs of the records that were read."""
        self.tombstones: set[bytes | None] = set()
        """The keys of every tombstone that was ever sent."""
        self.soft: set[int] = set()
        """The offsets of records that only the leader acknowledged (acks=1)."""
        self.repeated: set[Content] = set()
        """Records that were stored before and deleted."""
        self.generation = 0
        """Number of times that some of the read records may have been lost."""
        self.durable_end = 0
        """The offset below which everything has been synced."""
        self.log_end = 0
        """The largest log end offset so far."""
        self.start_floor = 0
        self.retention_ms: int | None = None
        """The age beyond which records may be deleted."""
        self._deleted_to = 0
        self._lost_to = 0
        """The largest log start offset that a power cut may have caused."""
        self._offsets: dict[Content, int] = {}

    @property
    def start_ceiling(self) -> int:
        """Return the largest offset at which the log may start.

        Causes: DeleteRecords, a power cut that left only later segments, or retention.
        """
        latest_ms, retention_ms = self._history.world.latest_ms, self.retention_ms
        if retention_ms is None or self._history.oldest_ms + retention_ms >= latest_ms:
            return max(self._deleted_to, self._lost_to)
        oldest_ms = latest_ms - retention_ms
        behind = ((at, content) for at, content in self.records.items() if at >= self._deleted_to)
        kept = min((at for at, content in behind if content.timestamp_ms >= oldest_ms), default=2**62)
        return max(kept, self._lost_to)

    def deleting(self, offset: int) -> None:
        """Record a DeleteRecords request for the records before `offset`."""
        self._deleted_to = max(self._deleted_to, offset)

    def acknowledged(self, offset: int, content: Content, *, firm: bool) -> None:
        self._place(offset, content, "was acknowledged")
        if not firm:
            self.soft.add(offset)

    def read(self, offset: int, content: Content, leader_epoch: int) -> None:
        known = content in self._history.attempted
        self._check(
            Invariant.RECORDS_ARE_SENT, known, f"{self._name} has at {offset} what was never sent: {content!r:.200}"
        )
        self._place(offset, content, "was read")
        epoch = self.epochs.setdefault(offset, leader_epoch)
        self._check(
            Invariant.RECORDS_STAY,
            epoch == leader_epoch,
            f"{self._name} has {offset} in leader epoch {leader_epoch}, not {epoch}",
        )
        self.soft.discard(offset)

    def _place(self, offset: int, content: Content, how: str) -> None:
        known = self.records.get(offset)
        self._check(
            Invariant.RECORDS_STAY,
            known in (None, content),
            f"{self._name}: {content} {how} at {offset}, where {known} was",
        )
        if self._history.attempted.get(content):
            at = self._offsets.setdefault(content, offset)
            if at < offset and at < self.start_ceiling and self._history.world.clustered:
                # A reassigned or refilled replica has no state of a producer whose records were deleted by then.
                self.repeated.add(content)
                at = self._offsets[content] = offset
            self._check(
                Invariant.RECORDS_ARE_UNIQUE,
                at == offset,
                f"{self._name}: {content} {how} at {offset}, and is at {at} too",
            )
        self.records[offset] = content

    def lose(self, *, always: bool) -> None:
        self.start_floor = 0  # deletions survive the death of the process, and are not synced
        lost = [offset for offset in self.records if offset >= self.durable_end and (not always or offset in self.soft)]
        for offset in lost:
            self._offsets.pop(self.records.pop(offset), None)
            self.epochs.pop(offset, None)
            self.soft.discard(offset)
        if not always:
            self.generation += 1
            if self.durable_end <= self._deleted_to:
                self._lost_to = self.log_end

    def started(self, log_start_offset: int, floor: int) -> None:
        """Compare a log start offset with the DeleteRecords requests, and with `floor`: the largest one confirmed
        before.
        """
        self._check(
            Invariant.DELETED_RECORDS_STAY_DELETED,
            floor <= log_start_offset <= self.start_ceiling,
            f"{self._name} starts at {log_start_offset}, not from {floor} to {self.start_ceiling}",
        )

    def complete(self, found: dict[int, Content], log_start_offset: int, *, compacted: bool) -> None:
        """Compare all records that were found with all that must exist."""
        last = {content.key: offset for offset, content in sorted(found.items())} if compacted else {}
        for offset, content in self.records.items():
            superseded = compacted and (last.get(content.key, -1) > offset or content.key in self.tombstones)
            if offset >= log_start_offset and not (superseded and offset not in found):
                known = found.get(offset)
                self._check(
                    Invariant.RECORDS_STAY,
                    known == content,
                    f"{self._name} has lost {content} at {offset}, of {len(found)}",
                )


class CommitHistory:
    """The offsets that one committer has stored: they only increase."""

    def __init__(self, world: World, name: str) -> None:
        self._check = world.check
        self._name = name
        self.floor = -1
        self.ceiling = -1
        self.deleted = -1
        """The last offset that was removed by a deletion of the group."""
        self.unsure = False
        """Whether the group may be deleted at any time: a deletion has no response."""
        self.lost: set[int] = set()
        """Commits without a response: they may be stored at any time, even after later ones."""

    def delete(self) -> None:
        """Record that the group was deleted with all its committed offsets."""
        self.deleted, self.floor = self.ceiling, -1

    def read(self, offset: int, floor: int, deleted: int) -> None:
        """Check a fetched offset; before the request, `floor` was committed and all up to `deleted` removed."""
        self._check(
            Invariant.OFFSETS_STAY,
            offset < 0 or offset > min(deleted, self.deleted) or offset in self.lost,
            f"{self._name} is committed up to {offset}, and was deleted up to {deleted}",
        )
        floor = -1 if self.unsure else min(floor, self.floor)  # lost meanwhile, where that is allowed
        self._check(
            Invariant.OFFSETS_STAY,
            floor <= offset <= self.ceiling or offset in self.lost,
            f"{self._name} is committed up to {offset}, not {floor} to {self.ceiling}",
        )


class GroupHistory:
    """The generations of a group."""

    def __init__(self, world: World, group: str, *, begun_anew: bool = False, has_offset: bool = True) -> None:
        """With `begun_anew`, the group may return to any earlier generation.

        `has_offset`: no power cut may have taken the group's offset. A coordinator deletes an empty group without
        offsets, and the next group of its name has a generation 1 again.
        """
        self._check = world.check
        self._begun_anew = begun_anew
        self._has_offset = has_offset
        self._group = group
        self._leaders: dict[int, str] = {}
        self._assigned: dict[int, list[dict[str, bytes]]] = {}
        self.generation = -1
        """The latest generation that a member is known to have begun."""

    @property
    def may_be_deleted(self) -> bool:
        """Whether it may have no offset; False too if nothing is known that would have to be forgotten."""
        return not self._has_offset and bool(self._leaders or self._assigned)

    def led(self, generation: int, leader: str) -> None:
        known = self._leaders.setdefault(generation, leader)
        self._check(
            Invariant.ONE_GROUP_LEADER,
            known == leader,
            f"generation {generation} of {self._group} is led by {known} and by {leader}",
        )

    def assigning(self, generation: int, assignments: dict[str, bytes]) -> None:
        """Record the assignment of a leader; a generation that was lost before it was stored has another leader."""
        self._assigned.setdefault(generation, []).append(assignments)

    def assigned(self, generation: int, member: str, assignment: bytes) -> None:
        expected = [shown[member] for shown in self._assigned.get(generation, ()) if member in shown]
        self._check(
            Invariant.ASSIGNMENTS_ARE_THE_LEADERS,
            assignment in expected or (not expected and self._begun_anew),
            f"{member} of {self._group} was assigned {assignment!r}, not {expected!r}",
        )
        self.generation = max(self.generation, generation)

    def committed(self, generation: int, latest: int) -> None:
        """Check an accepted commit of `generation`; `latest` had begun when the commit was sent."""
        self._check(
            Invariant.GENERATIONS_ARE_FENCED,
            generation >= latest,
            f"{self._group} took a commit of generation {generation} in generation {latest}",
        )
        self._has_offset = True
