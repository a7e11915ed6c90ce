"""Changes of one partition: its leader, ISR and ELR (KIP-966; Kafka: `PartitionChangeBuilder`).

    ISR   the replicas in sync. A record is committed only when all of them have it, so each may lead.
    ELR   the eligible leader replicas: those that left the ISR since it fell below min.insync.replicas. Nothing is
          committed while the ISR is that small, so they have every committed record, and may lead once the ISR is
          empty. Kept only with the feature eligible.leader.replicas.version; without it the last replicas in sync stay
          in the ISR, live or not.
    last known leader   the last leader of a partition without one, stored in `last_known_elr` as in Kafka. With ISR and
          ELR empty it is elected again once it is live, as the replica with most records.

A leader elected from outside ISR and ELR may lack committed records: it becomes the whole ISR and is RECOVERING until
it reports RECOVERED. The leader epoch is bumped when the leader changes, also to none, and when a replica is removed,
to fence its fetches; not when the ISR only shrinks. The partition epoch is bumped by every change.

Every record that changes a partition's replicas, directories, ISR, ELR or leader is built here; a reassignment
completes with the change that brings the last replica it waits for into the ISR. `leader_and_isr_updates.py`
finds the partitions that a broker's change of state concerns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from controller.configs.broker import BROKER_CONFIGS
from controller.configs.definition import parse_value
from controller.configs.effective import StaticSettings, effective_topic_value
from controller.image import (
    NO_LEADER,
    BrokerImage,
    DirectoryId,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from controller.image_builder import LEADER_UNCHANGED
from protocol.records.metadata import PartitionChangeRecord

ELR_VERSION = "eligible.leader.replicas.version"

# Leader recovery states: after an unclean election a leader is RECOVERING until it reports RECOVERED.
RECOVERED, RECOVERING = 0, 1

MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"


class Election(Enum):
    """The kind of an election."""

    ONLINE = "the current leader if it can lead, else a replica with every committed record"
    PREFERRED = "the first replica if it can lead, else as ONLINE"
    UNCLEAN = "as ONLINE, else any live replica"
    FORCED = "as UNCLEAN, else a replica whose broker is live though its directory failed; only on request"


class DefaultSettings:
    """Static settings with every value at its default."""

    node_id = -1
    explicit: Mapping[str, str] = {}

    def __getitem__(self, name: str, /) -> Any:
        definition = BROKER_CONFIGS[name]
        return parse_value(definition, definition.default)


DEFAULT_SETTINGS = DefaultSettings()


def elr_enabled(image: MetadataImage) -> bool:
    """Return whether the ELR is enabled (KIP-966)."""
    return image.features.get(ELR_VERSION, 0) > 0


def has_directory(broker: BrokerImage, directory: bytes) -> bool:
    """Return whether a broker's directory, given by id, works as far as is known (Kafka: `DirectoryId.isOnline`)."""
    if directory in broker.directories or directory in (DirectoryId.UNASSIGNED, DirectoryId.MIGRATING):
        return True
    return directory != DirectoryId.LOST and not broker.directories


class Replicas(NamedTuple):
    """The replicas of a partition; those that a reassignment adds and removes are among them."""

    replicas: Sequence[int]
    adding: Sequence[int] = ()
    removing: Sequence[int] = ()


class _Rules(NamedTuple):
    """A topic's configs about elections."""

    min_isr: int
    unclean: bool


class PartitionChangeBuilder:
    """Builds changes of an image's partitions; other records of the same command change brokers.

    `joining` brokers can lead although the image has them fenced; `leaving` ones cannot although it has them active.
    `unclean` ones may have lost records since they were last live: they are removed from ELRs too.
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
        self.elr_enabled = elr_enabled(image)
        self._settings = settings
        self._unclean = frozenset(unclean)
        gone = self._unclean.union(leaving)
        self._live_brokers: dict[int, BrokerImage] = {
            broker.broker_id: broker
            for broker in image.brokers.values()
            if broker.broker_id not in gone
            and not broker.in_controlled_shutdown
            and (not broker.fenced or broker.broker_id in joining)
        }
        self._default_rules: _Rules | None = None

    def is_live(self, replica: int, directory: bytes) -> bool:
        """Return whether a replica's broker is live and the directory works."""
        broker = self._live_brokers.get(replica)
        return broker is not None and has_directory(broker, directory)

    def is_broker_live(self, replica: int) -> bool:
        """Return whether a replica's broker is live; its directory may have failed."""
        return replica in self._live_brokers

    def unclean_enabled(self, topic: TopicImage) -> bool:
        """Return whether the topic allows unclean elections, which may lose records."""
        return self._rules(topic).unclean

    def change(
        self,
        topic: TopicImage,
        partition: PartitionImage,
        *,
        election: Election | None = None,
        replicas: Replicas | None = None,
        isr: Sequence[int] | None = None,
        recovery_state: int | None = None,
        directories: Mapping[int, bytes] | None = None,
    ) -> PartitionChangeRecord | None:
        """Return the change to this target state, with the election that follows; None if there is none.

        What is None stays as it is, unless the election changes it. `directories` are by replica; each new replica has
        one. The default `election` is UNCLEAN if the topic allows that, else ONLINE.
        """
        rules = self._rules(topic)
        if election is None:
            election = Election.UNCLEAN if rules.unclean else Election.ONLINE
        target = _Target(self, partition, election, min(rules.min_isr, len(partition.replicas)))
        if replicas is not None:
            target.replicas, target.adding, target.removing = map(tuple, replicas)
        if isr is not None:
            target.isr = tuple(isr)
        if directories:
            target.directories.update(directories)
        return target.record(topic.topic_id, recovery_state)

    def without_unclean(self, replicas: Collection[int]) -> Collection[int]:
        """Return the replicas that are not `unclean`."""
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
    """The target state of a partition, determined in order: replicas, eligible leaders, leader."""

    def __init__(
        self, builder: PartitionChangeBuilder, partition: PartitionImage, election: Election, min_isr: int
    ) -> None:
        self.builder = builder
        self.partition = partition
        self.election = election
        self.min_isr = min_isr
        self.replicas = partition.replicas
        self.directories = dict(zip(partition.replicas, partition.directories, strict=True))
        self.isr = partition.isr
        self.elr = partition.eligible_leader_replicas
        self.adding = partition.adding_replicas
        self.removing = partition.removing_replicas

    def record(self, topic_id: bytes, recovery_state: int | None) -> PartitionChangeRecord | None:
        """Return the difference between the partition and its target; None if there is none."""
        old, elr_enabled = self.partition, self.builder.elr_enabled
        change = PartitionChangeRecord(partition_id=old.partition, topic_id=topic_id)
        self._complete_reassignment()
        if old.leader == NO_LEADER:
            self._remove_dead_from_isr()
        if elr_enabled:
            self._update_elr()
        leader, unclean = self._elect()
        if leader != old.leader:
            change.leader = leader
            if leader in self.elr:
                self.isr, self.elr = (leader,), tuple(one for one in self.elr if one != leader)
                # With min.insync.replicas = 1 the new leader alone commits records that the other ELR members lack.
                if len(self.isr) >= self.min_isr:
                    self.elr = ()
        elif not set(old.replicas) <= set(self.replicas):
            change.leader = leader
        if unclean:
            self.isr = (leader,)
            if old.leader_recovery_state != RECOVERING:
                change.leader_recovery_state = RECOVERING
        if unclean or not elr_enabled:
            self.elr = ()
        if not (self.isr or elr_enabled):
            # Without ELR the ISR is never empty: the last replicas in sync stay in it; if they are removed, the first.
            self.isr = tuple(replica for replica in old.isr if replica in self.replicas) or self.replicas[:1]
        if self.isr != old.isr:
            change.isr = list(self.isr)
        if self.elr != old.eligible_leader_replicas:
            change.eligible_leader_replicas = list(self.elr)
        if elr_enabled:
            self._update_last_known_leader(change)
        if recovery_state is not None and recovery_state != old.leader_recovery_state:
            change.leader_recovery_state = recovery_state
        self._assign(change)
        return None if _changes_nothing(change) else change

    def _complete_reassignment(self) -> None:
        """Complete a reassignment if all replicas that it adds are in sync, and all that remain if it removes more."""
        if not (self.adding or self.removing):
            return
        isr = tuple(replica for replica in self.isr if replica not in self.removing)
        replicas = tuple(replica for replica in self.replicas if replica not in self.removing)
        needed = self.adding if len(self.adding) >= len(self.removing) else replicas
        if isr and replicas and set(needed) <= set(isr):
            self.isr, self.replicas, self.adding, self.removing = isr, replicas, (), ()

    def _update_elr(self) -> None:
        """Add replicas that leave the ISR to the ELR while the ISR is below min.insync.replicas; else clear it."""
        if len(self.isr) >= self.min_isr:
            self.elr = ()
            return
        before = {*self.elr, *self.partition.isr} & set(self.replicas)
        self.elr = tuple(sorted(self.builder.without_unclean(before - set(self.isr))))

    def _remove_dead_from_isr(self) -> None:
        """Remove dead replicas from the ISR, unless all are: without ELR, replicas that fail together stay in it."""
        self.isr = tuple(replica for replica in self.isr if self._is_live(replica)) or self.isr

    def _elect(self) -> tuple[int, bool]:
        """Return the leader, or NO_LEADER, and whether it may lack committed records."""
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
                if self._is_live(replica):
                    return replica, True
        if self.election is Election.FORCED:
            for replica in self.replicas:
                if self.builder.is_broker_live(replica):
                    return replica, True
        return NO_LEADER, False

    def _may_lead(self, replica: int) -> bool:
        """Return whether a replica has every committed record and is live."""
        return replica in (self.isr or self.elr) and self._is_live(replica)

    def _is_live(self, replica: int) -> bool:
        return replica in self.replicas and self.builder.is_live(replica, self.directories[replica])

    def _last_known_leader(self) -> int:
        """Return the last known leader if it is live and ISR and ELR are empty; else NO_LEADER."""
        known = self.partition.last_known_elr
        if not self.builder.elr_enabled or self.isr or self.elr or len(known) != 1:
            return NO_LEADER
        return known[0] if self._is_live(known[0]) else NO_LEADER

    def _update_last_known_leader(self, change: PartitionChangeRecord) -> None:
        """Store the last leader when the partition loses its leader; clear it once there is a leader."""
        old = self.partition
        if change.leader == NO_LEADER and old.leader != NO_LEADER and not old.last_known_elr:
            change.last_known_elr = [old.leader]
        elif change.leader >= 0 and old.last_known_elr:
            change.last_known_elr = []

    def _assign(self, change: PartitionChangeRecord) -> None:
        """Add the changed replicas and directories to `change`."""
        old = self.partition
        if self.replicas != old.replicas:
            change.replicas = list(self.replicas)
        if self.adding != old.adding_replicas:
            change.adding_replicas = list(self.adding)
        if self.removing != old.removing_replicas:
            change.removing_replicas = list(self.removing)
        directories = tuple(self.directories[replica] for replica in self.replicas)
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
