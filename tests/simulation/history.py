"""What clients were told, and so what has to be true from then on.

A record whose offset somebody was told, by an acknowledgement or by reading it, stays there, unchanged, until its
topic is deleted or DeleteRecords passes it; an idempotent producer's is there once. How firm that is:

    acknowledged or read     the process dies     the power goes, fsync=always     the power goes, fsync=flush
    acks=all, or read        stays                stays                            stays if it was synced
    acks=1                   stays                stays if it was synced           stays if it was synced

In a cluster acks=all promises as much while fewer replicas lose what they have not synced than are in sync, and acks=1
promises nothing. Offsets of groups and topics are told of in the same way.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.cluster import World
from tests.simulation.violation import Invariant

ID_HEADER = b"id"


class Content(NamedTuple):
    """A record without its offset, as a producer sent it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    timestamp_ms: int

    @property
    def identity(self) -> bytes:
        """Return what tells the record from all others: producer/life/number."""
        return next((value or b"" for name, value in self.headers if name == ID_HEADER), b"?")

    def __str__(self) -> str:
        return self.identity.decode()


class History:
    """Everything that clients were told."""

    def __init__(self, world: World, *, always: bool) -> None:
        """`always` says that records count only once they are synced."""
        self.world = world
        self.always = always
        self.attempted: dict[Content, bool] = {}
        """Every record that was ever sent, and whether it may be there only once."""
        self.oldest_ms = 2**63
        """The smallest timestamp of a record that was sent: also what was never acknowledged may be too old, and go."""
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
        """Forget what may be lost now, of topics of a cluster of one broker, and of its groups."""
        for (topic, _), partition in self.partitions.items():
            if topic in topics:
                partition.lose(always=self.always)
        if not self.always:
            for commit in self.commits.values():
                commit.floor = commit.deleted = -1
            self.groups = {group: GroupHistory(self.world, group, begun_anew=True) for group in self.groups}


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
        """The keys of which a record without a value was ever sent."""
        self.soft: set[int] = set()
        """The offsets of those that only one replica has promised."""
        self.repeated: set[Content] = set()
        """Those that were there before, and deleted."""
        self.generation = 0
        """How often some of what was read may have been lost."""
        self.durable_end = 0
        """The offset below which everything has been synced."""
        self.log_end = 0
        """The largest log end offset so far."""
        self.start_floor = 0
        self.retention_ms: int | None = None
        """The age beyond which records may go."""
        self._deleted_to = 0
        self._lost_to = 0
        """The offset at which the log may start since a power cut."""
        self._offsets: dict[Content, int] = {}

    @property
    def start_ceiling(self) -> int:
        """Return the largest offset at which the log may start.

        By DeleteRecords, by a power cut that left no segment but later ones, or because all before is too old.
        """
        latest_ms, retention_ms = self._history.world.latest_ms, self.retention_ms
        if retention_ms is None or self._history.oldest_ms + retention_ms >= latest_ms:
            return max(self._deleted_to, self._lost_to)
        oldest_ms = latest_ms - retention_ms
        behind = ((at, content) for at, content in self.records.items() if at >= self._deleted_to)
        kept = min((at for at, content in behind if content.timestamp_ms >= oldest_ms), default=2**62)
        return max(kept, self._lost_to)

    def deleting(self, offset: int) -> None:
        """Note that records before `offset` are asked to be deleted."""
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
                # A replica that was refilled knows nothing of a producer whose records were deleted by then.
                self.repeated.add(content)
                at = self._offsets[content] = offset
            self._check(
                Invariant.RECORDS_ARE_UNIQUE,
                at == offset,
                f"{self._name}: {content} {how} at {offset}, and is at {at} too",
            )
        self.records[offset] = content

    def lose(self, *, always: bool) -> None:
        self.start_floor = 0  # deletions last when the process dies, and are not synced
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
        """Hold a log's start against what DeleteRecords was asked, and was told, `floor`, before this was asked."""
        self._check(
            Invariant.DELETED_RECORDS_STAY_DELETED,
            floor <= log_start_offset <= self.start_ceiling,
            f"{self._name} starts at {log_start_offset}, not from {floor} to {self.start_ceiling}",
        )

    def complete(self, found: dict[int, Content], log_start_offset: int, *, compacted: bool) -> None:
        """Hold all that is there against all that was promised."""
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
    """What one committer has stored, a number that only rises."""

    def __init__(self, world: World, name: str) -> None:
        self._check = world.check
        self._name = name
        self.floor = -1
        self.ceiling = -1
        self.deleted = -1
        """The last that was gone when the group was deleted."""
        self.unsure = False
        """Whether the group may be deleted at any time: no answer came to that."""
        self.lost: set[int] = set()
        """Those of which no answer came: they may come to be stored at any time, even after later ones."""

    def delete(self) -> None:
        """Note that the group was deleted, with all that was committed."""
        self.deleted, self.floor = self.ceiling, -1

    def read(self, offset: int, floor: int, deleted: int) -> None:
        """Take what a fetch answered, when `floor` was committed, and all up to `deleted` gone, before it was sent."""
        self._check(
            Invariant.OFFSETS_STAY,
            offset < 0 or offset > min(deleted, self.deleted) or offset in self.lost,
            f"{self._name} is committed up to {offset}, and was deleted up to {deleted}",
        )
        floor = -1 if self.unsure else min(floor, self.floor)  # lost meanwhile, as far as that is allowed
        self._check(
            Invariant.OFFSETS_STAY,
            floor <= offset <= self.ceiling or offset in self.lost,
            f"{self._name} is committed up to {offset}, not {floor} to {self.ceiling}",
        )


class GroupHistory:
    """The generations of a group."""

    def __init__(self, world: World, group: str, *, begun_anew: bool = False) -> None:
        """`begun_anew` says that it may go back to any generation that it had before."""
        self._check = world.check
        self._begun_anew = begun_anew
        self._group = group
        self._leaders: dict[int, str] = {}
        self._assigned: dict[int, list[dict[str, bytes]]] = {}
        self.generation = -1
        """The latest that a member is known to have begun."""

    def led(self, generation: int, leader: str) -> None:
        known = self._leaders.setdefault(generation, leader)
        self._check(
            Invariant.ONE_GROUP_LEADER,
            known == leader,
            f"generation {generation} of {self._group} is led by {known} and by {leader}",
        )

    def assigning(self, generation: int, assignments: dict[str, bytes]) -> None:
        """Note what a leader is about to say; a generation that was lost before it was stored has another leader."""
        self._assigned.setdefault(generation, []).append(assignments)

    def assigned(self, generation: int, member: str, assignment: bytes) -> None:
        expected = [said[member] for said in self._assigned.get(generation, ()) if member in said]
        self._check(
            Invariant.ASSIGNMENTS_ARE_THE_LEADERS,
            assignment in expected or (not expected and self._begun_anew),
            f"{member} of {self._group} was assigned {assignment!r}, not {expected!r}",
        )
        self.generation = max(self.generation, generation)

    def committed(self, generation: int, latest: int) -> None:
        """A commit of `generation` was accepted that was sent when `latest` had begun."""
        self._check(
            Invariant.GENERATIONS_ARE_FENCED,
            generation >= latest,
            f"{self._group} took a commit of generation {generation} in generation {latest}",
        )
