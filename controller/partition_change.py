"""What becomes of one partition: who leads it, who is in sync, and who else has every committed record (KIP-966).

    ISR   the replicas in sync. Nothing is committed that one of them lacks, so each may lead.
    ELR   the replicas that left the ISR since it fell below min.insync.replicas. Nothing is committed while it is that
          small, so they still have everything, and may lead once the ISR is empty. Kept only where the feature
          eligible.leader.replicas.version is on; without it the last replicas in sync stay in the ISR, alive or not.
    last known leader   who led when the partition lost its leader; the field is named for what it was meant to hold,
          the last known ELR. With ISR and ELR empty it is elected again once it lives, as the one that has most.

Whoever is elected from outside both has perhaps lost records: it is the whole ISR then, and recovering until it says
otherwise. The leader epoch grows when the leader changes, even to nobody, and when a replica is taken away, whose
fetches must count no more; a shrinking ISR alone does not raise it. The partition epoch grows with every change.

Which partitions an event concerns is the business of `elections.py`. Moving replicas is completed here, when the ISR
has all that it waits for, and begun in `commands/reassignments.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from controller.configs.broker import BROKER_CONFIGS
from controller.configs.definition import parse_value
from controller.configs.effective import StaticSettings, effective_topic_value
from controller.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage, ResourceType, TopicImage
from controller.image_builder import LEADER_UNCHANGED
from protocol.records.metadata import PartitionChangeRecord

ELR_VERSION = "eligible.leader.replicas.version"

# Leader recovery states: a leader from outside the ISR is recovering until it says that it has finished.
RECOVERED, RECOVERING = 0, 1

# A directory id that says: this replica was in a directory that has failed, nobody knows which (KIP-858).
LOST_DIRECTORY = (2).to_bytes(16, "big")
# Ids below are those of directories not chosen yet, or from before directories had ids: nothing speaks against them.
_UNKNOWN_DIRECTORIES = frozenset({bytes(16), (1).to_bytes(16, "big")})

MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"


class Election(Enum):
    """How to elect."""

    ONLINE = "whoever leads leads on; else one that has every committed record"
    PREFERRED = "the first replica if it can, else as ONLINE"
    UNCLEAN = "as ONLINE, and if nobody has every committed record, anybody that lives"
    FORCED = "as UNCLEAN, and if no replica is where it was, one that begins anew; only at somebody's word"


class DefaultSettings:
    """The settings of somebody who set nothing."""

    node_id = -1
    explicit: Mapping[str, str] = {}

    def __getitem__(self, name: str, /) -> Any:
        definition = BROKER_CONFIGS[name]
        return parse_value(definition, definition.default)


DEFAULT_SETTINGS = DefaultSettings()


def tracks_eligible(image: MetadataImage) -> bool:
    """Say whether the ELR is kept (KIP-966)."""
    return image.features.get(ELR_VERSION, 0) > 0


def has_directory(broker: BrokerImage, directory: bytes) -> bool:
    """Say whether a directory of a broker works, for all that is known; `directory` is the id of one."""
    if directory in broker.directories or directory in _UNKNOWN_DIRECTORIES:
        return True
    return directory != LOST_DIRECTORY and not broker.directories


class _Rules(NamedTuple):
    """What a topic's configuration says of elections."""

    min_isr: int
    unclean: bool


class Elector:
    """Decides on partitions of an image, while some brokers come or go by other records of the same command.

    `joining` can lead although the image has them fenced, `leaving` cannot although it has them active. `unclean` are
    those that may have lost records they had when they were last seen: they are not eligible either.
    """

    def __init__(
        self,
        image: MetadataImage,
        settings: StaticSettings = DEFAULT_SETTINGS,
        *,
        joining: Collection[int] = (),
        leaving: Collection[int] = (),
        unclean: Collection[int] = (),
    ) -> None:
        self.image = image
        self.tracks_eligible = tracks_eligible(image)
        self._settings = settings
        self._unclean = frozenset(unclean)
        gone = self._unclean.union(leaving)
        self._living: dict[int, BrokerImage] = {
            broker.broker_id: broker
            for broker in image.brokers.values()
            if broker.broker_id not in gone
            and not broker.in_controlled_shutdown
            and (not broker.fenced or broker.broker_id in joining)
        }
        self._default_rules: _Rules | None = None

    def lives(self, replica: int, directory: bytes) -> bool:
        """Say whether a replica can lead for what is known of its broker and of the directory that it is in."""
        broker = self._living.get(replica)
        return broker is not None and has_directory(broker, directory)

    def broker_lives(self, replica: int) -> bool:
        """Say whether a replica can lead for what is known of its broker, wherever it may be there."""
        return replica in self._living

    def unclean_enabled(self, topic: TopicImage) -> bool:
        """Say whether records may be lost so that the topic's partitions have leaders."""
        return self._rules(topic).unclean

    def change(
        self,
        topic: TopicImage,
        partition: PartitionImage,
        *,
        election: Election | None = None,
        isr: Sequence[int] | None = None,
        recovery_state: int | None = None,
        directories: Mapping[int, bytes] | None = None,
    ) -> PartitionChangeRecord | None:
        """Return what leads to these replicas in sync, this recovery state and these directories; None if nothing.

        What is not given stays as it is, as far as elections let it. `directories` are by replica. The `election` is
        that of the topic's configuration unless given.
        """
        rules = self._rules(topic)
        if election is None:
            election = Election.UNCLEAN if rules.unclean else Election.ONLINE
        target = _Target(self, partition, election, min(rules.min_isr, len(partition.replicas)))
        if isr is not None:
            target.isr = tuple(isr)
        if directories:
            target.homes.update(directories)
        return target.record(topic.topic_id, recovery_state)

    def without_unclean(self, replicas: Collection[int]) -> Collection[int]:
        """Return those of the replicas that have not lost anything."""
        return [replica for replica in replicas if replica not in self._unclean] if self._unclean else replicas

    def _rules(self, topic: TopicImage) -> _Rules:
        overrides = self.image.configs(ResourceType.TOPIC, topic.name)
        if MIN_ISR in overrides or UNCLEAN in overrides:
            return self._effective_rules(overrides)
        if self._default_rules is None:
            self._default_rules = self._effective_rules({})
        return self._default_rules

    def _effective_rules(self, overrides: Mapping[str, str]) -> _Rules:
        return _Rules(
            effective_topic_value(self.image, self._settings, overrides, MIN_ISR),
            effective_topic_value(self.image, self._settings, overrides, UNCLEAN),
        )


class _Target:
    """What a partition is to become: first the replicas, then who is eligible, then the leader."""

    def __init__(self, elector: Elector, partition: PartitionImage, election: Election, min_isr: int) -> None:
        self.elector = elector
        self.partition = partition
        self.election = election
        self.min_isr = min_isr
        self.replicas = partition.replicas
        self.homes = dict(zip(partition.replicas, partition.directories, strict=True))
        self.isr = partition.isr
        self.eligible = partition.eligible_leader_replicas
        self.moving = bool(partition.adding_replicas or partition.removing_replicas)

    def record(self, topic_id: bytes, recovery_state: int | None) -> PartitionChangeRecord | None:
        """Return the difference between the partition and its target; None if there is none."""
        old, tracks_eligible = self.partition, self.elector.tracks_eligible
        change = PartitionChangeRecord(partition_id=old.partition, topic_id=topic_id)
        self._complete_move()
        if old.leader == NO_LEADER:
            self._leave_out_dead()
        if tracks_eligible:
            self._keep_eligible()
        leader, unclean = self._elect()
        if leader != old.leader:
            change.leader = leader
            if leader in self.eligible:
                self.isr, self.eligible = (leader,), tuple(one for one in self.eligible if one != leader)
                # Alone it may be enough to commit what the others, who all went at once, will not have.
                if len(self.isr) >= self.min_isr:
                    self.eligible = ()
        elif not set(old.replicas) <= set(self.replicas):
            change.leader = leader
        if unclean:
            self.isr = (leader,)
            if old.leader_recovery_state != RECOVERING:
                change.leader_recovery_state = RECOVERING
        if unclean or not tracks_eligible:
            self.eligible = ()
        if self.isr != old.isr and (self.isr or tracks_eligible):
            change.isr = list(self.isr)
        if self.eligible != old.eligible_leader_replicas:
            change.eligible_leader_replicas = list(self.eligible)
        if tracks_eligible:
            self._remember_leader(change)
        if recovery_state is not None and recovery_state != old.leader_recovery_state:
            change.leader_recovery_state = recovery_state
        self._assign(change)
        return None if _changes_nothing(change) else change

    def _complete_move(self) -> None:
        """End a move of replicas if all that are to stay are in sync."""
        if not self.moving:
            return
        removing = self.partition.removing_replicas
        isr = tuple(replica for replica in self.isr if replica not in removing)
        replicas = tuple(replica for replica in self.replicas if replica not in removing)
        if isr and replicas and set(replicas) <= set(isr):
            self.isr, self.replicas, self.moving = isr, replicas, False

    def _keep_eligible(self) -> None:
        """Note who leaves an ISR that is too small to commit anything."""
        if len(self.isr) >= self.min_isr:
            self.eligible = ()
            return
        before = {*self.eligible, *self.partition.isr} & set(self.replicas)
        self.eligible = tuple(sorted(self.elector.without_unclean(before - set(self.isr))))

    def _leave_out_dead(self) -> None:
        """Let the ISR be those who live, if any do: without an ELR, all who went at once have stayed in it."""
        self.isr = tuple(replica for replica in self.isr if self._lives(replica)) or self.isr

    def _elect(self) -> tuple[int, bool]:
        """Return who leads, NO_LEADER if nobody can, and whether it may lack committed records."""
        current, preferred = self.partition.leader, self.replicas[0]
        if self.election is Election.PREFERRED and self._may_lead(preferred):
            return preferred, False
        if self._may_lead(current):
            return current, False
        for replica in self.replicas:
            if self._may_lead(replica):
                return replica, False
        last_known = self._last_known_leader()
        if last_known != NO_LEADER:
            return last_known, True
        if self.election in (Election.UNCLEAN, Election.FORCED):
            for replica in self.replicas:
                if self._lives(replica):
                    return replica, True
        if self.election is Election.FORCED:
            for replica in self.replicas:
                if self.elector.broker_lives(replica):
                    return replica, True
        return NO_LEADER, False

    def _may_lead(self, replica: int) -> bool:
        """Say whether a replica has every committed record, and lives."""
        return replica in (self.isr or self.eligible) and self._lives(replica)

    def _lives(self, replica: int) -> bool:
        home = self.homes.get(replica)
        return home is not None and self.elector.lives(replica, home)

    def _last_known_leader(self) -> int:
        """Return the last known leader if nobody is better and it lives; else NO_LEADER."""
        known = self.partition.last_known_elr
        if not self.elector.tracks_eligible or self.isr or self.eligible or len(known) != 1:
            return NO_LEADER
        return known[0] if self._lives(known[0]) else NO_LEADER

    def _remember_leader(self, change: PartitionChangeRecord) -> None:
        """Note who led last when nobody does any more; forget it once somebody does."""
        old = self.partition
        if change.leader == NO_LEADER and old.leader != NO_LEADER and not old.last_known_elr:
            change.last_known_elr = [old.leader]
        elif change.leader >= 0 and old.last_known_elr:
            change.last_known_elr = []

    def _assign(self, change: PartitionChangeRecord) -> None:
        """Note which replicas there are now, and where they lie."""
        old = self.partition
        if self.replicas != old.replicas:
            change.replicas = list(self.replicas)
        if not self.moving:
            change.adding_replicas = [] if old.adding_replicas else None
            change.removing_replicas = [] if old.removing_replicas else None
        directories = tuple(self.homes[replica] for replica in self.replicas)
        if directories != old.directories:
            change.directories = list(directories)


def _changes_nothing(change: PartitionChangeRecord) -> bool:
    return (
        change.leader == LEADER_UNCHANGED
        and change.isr is None
        and change.leader_recovery_state < 0
        and change.directories is None
        and change.eligible_leader_replicas is None
        and change.last_known_elr is None
        and change.replicas is None
        and change.adding_replicas is None
        and change.removing_replicas is None
    )
