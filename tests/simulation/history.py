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

from tests.simulation.cluster import World
from tests.simulation.violation import Invariant


class History:
    """Everything that clients were told."""

    def __init__(self, world: World, *, always: bool) -> None:
        """`always` says that records count only once they are synced."""
        self.world = world
        self.always = always
        self.attempted: dict[bytes, bool] = {}
        """Every value that was ever sent, and whether it may be there only once."""
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
                commit.floor = -1
            self.groups = {group: GroupHistory(self.world, group, begun_anew=True) for group in self.groups}


class PartitionHistory:
    """The records of a partition of a topic that is never deleted."""

    def __init__(self, history: History, name: str) -> None:
        self._history = history
        self._name = name
        self._check = history.world.check
        self.records: dict[int, bytes] = {}
        self.soft: set[int] = set()
        """The offsets of those that only one replica has promised."""
        self.repeated: set[bytes] = set()
        """Those that were there before, and deleted."""
        self.generation = 0
        """How often some of what was read may have been lost."""
        self.durable_end = 0
        """The offset below which everything has been synced."""
        self.start_floor = 0
        self.start_ceiling = 0
        self._offsets: dict[bytes, int] = {}

    def acknowledged(self, offset: int, value: bytes, *, firm: bool) -> None:
        self._place(offset, value, "was acknowledged")
        if not firm:
            self.soft.add(offset)

    def read(self, offset: int, value: bytes) -> None:
        self._check(
            Invariant.RECORDS_ARE_SENT,
            value in self._history.attempted,
            f"{self._name} has {value[:40]!r} at {offset}, of nobody",
        )
        self._place(offset, value, "was read")
        self.soft.discard(offset)

    def _place(self, offset: int, value: bytes, how: str) -> None:
        known = self.records.get(offset)
        self._check(
            Invariant.RECORDS_STAY,
            known in (None, value),
            f"{self._name}: {value[:40]!r} {how} at {offset}, where {(known or b'')[:40]!r} was",
        )
        if self._history.attempted.get(value):
            at = self._offsets.setdefault(value, offset)
            if at < offset and at < self.start_ceiling and self._history.world.clustered:
                # A replica that was refilled knows nothing of a producer whose records were deleted by then.
                self.repeated.add(value)
                at = self._offsets[value] = offset
            self._check(
                Invariant.RECORDS_ARE_UNIQUE,
                at == offset,
                f"{self._name}: {value[:40]!r} {how} at {offset}, and is at {at} too",
            )
        self.records[offset] = value

    def lose(self, *, always: bool) -> None:
        self.start_floor = 0  # deletions last when the process dies, and are not synced
        lost = [offset for offset in self.records if offset >= self.durable_end and (not always or offset in self.soft)]
        for offset in lost:
            self._offsets.pop(self.records.pop(offset), None)
            self.soft.discard(offset)
        if not always:
            self.generation += 1

    def started(self, log_start_offset: int, floor: int) -> None:
        """Hold a log's start against what DeleteRecords was asked, and was told, `floor`, before this was asked."""
        self._check(
            Invariant.DELETED_RECORDS_STAY_DELETED,
            floor <= log_start_offset <= self.start_ceiling,
            f"{self._name} starts at {log_start_offset}, not from {floor} to {self.start_ceiling}",
        )

    def complete(self, found: dict[int, bytes], log_start_offset: int) -> None:
        """Hold all that is there against all that was promised."""
        for offset, value in self.records.items():
            if offset >= log_start_offset:
                self._check(
                    Invariant.RECORDS_STAY,
                    found.get(offset) == value,
                    f"{self._name} has lost {value[:40]!r} at {offset}, of {len(found)}",
                )


class CommitHistory:
    """What one committer has stored, a number that only rises."""

    def __init__(self, world: World, name: str) -> None:
        self._check = world.check
        self._name = name
        self.floor = -1
        self.ceiling = -1
        self.lost: set[int] = set()
        """Those of which no answer came: they may come to be stored at any time, even after later ones."""

    def read(self, offset: int, floor: int) -> None:
        """Take what a fetch answered, when `floor` had been acknowledged before it was sent."""
        floor = min(floor, self.floor)  # lost meanwhile, as far as that is allowed
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
