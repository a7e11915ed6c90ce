"""Planted bugs of a broker in a cluster; as `bugs.py`."""

from __future__ import annotations

import asyncio
from typing import Any

from broker.coordinator.runtime.shard_host import ShardHost
from broker.metadata import topic_creation
from broker.metadata.metadata_log import MetadataLog
from broker.replication import isr, isr_manager
from broker.replication.follower_replica import FollowerReplica
from broker.replication.partition import LATEST, Isolation, OffsetFound, Partition
from broker.replication.replica_manager import ReplicaManager
from broker.replication.replica_state import NO_EPOCH, ReplicaState
from controller.commands import alter_partition, registration
from controller.image import MetadataImage
from controller.partition_change import Election, _Target
from controller.raft.messages import NO_NODE, QuorumState
from protocol.errors import ErrorCode
from protocol.primitives import ZERO_UUID
from storage.log.files import LogFiles
from storage.log.leader_epochs import EpochEnd
from storage.log.log import Log
from storage.log.producer_state import ProducerState
from storage.log_manager import LogManager
from storage.steps import Search
from tests.planting import Bug, Planter
from tests.simulation import bugs, raft_bugs
from tests.simulation.violation import Invariant


def cuts_to_its_own_high_watermark(plant: Planter) -> None:
    """A follower truncates to its high watermark, not by leader epoch (rule 1)."""
    copy_of = ReplicaManager.copy_of

    def cut(self: ReplicaManager, partition: Partition) -> FollowerReplica:
        copy = copy_of(self, partition)
        copy.cut(partition.high_watermark)
        return copy

    plant.setattr(ReplicaManager, "copy_of", cut)


def counts_only_who_is_surely_in_sync(plant: Planter) -> None:
    """The high watermark does not wait for a replica whose ISR change is pending (rule 7)."""
    plant.setattr(Partition, "maximal_isr", property(lambda self: self.isr & (self.proposed_isr or self.isr)))


def counts_proposed_replicas_for_min_isr(plant: Planter) -> None:
    """Replicas that the controller has not yet added to the ISR count for `min.insync.replicas` (rule 3)."""
    advance = Partition.advance_high_watermark

    def advance_with_the_proposed(self: Partition) -> bool:
        isr, self.isr = self.isr, self.maximal_isr
        try:
            return advance(self)
        finally:
            self.isr = isr

    plant.setattr(Partition, "advance_high_watermark", advance_with_the_proposed)


def commits_with_too_few_in_sync(plant: Planter) -> None:
    """`min.insync.replicas` is not checked (rule 5)."""
    advance = Partition.advance_high_watermark

    def advance_with_anybody(self: Partition) -> bool:
        isr, self.isr = self.isr, frozenset(self.replicas)
        try:
            return advance(self)
        finally:
            self.isr = isr

    plant.setattr(Partition, "advance_high_watermark", advance_with_anybody)
    plant.setattr(Partition, "min_isr", property(lambda self: 1))


def says_where_it_ends_before_it_knows(plant: Planter) -> None:
    """A new leader answers ListOffsets before its high watermark reaches its epoch (rule 4)."""
    lead = Partition.lead

    def lead_at_once(self: Partition, *args: Any) -> None:
        lead(self, *args)
        self.epoch_start_offset = 0

    plant.setattr(Partition, "lead", lead_at_once)


def takes_any_broker_epoch_into_sync(plant: Planter) -> None:
    """A restarted broker joins the ISR by the fetches of its former incarnation (rule 8)."""
    plant.setattr(alter_partition, "_is_eligible", lambda image, replica, epoch: image.is_active(replica))
    plant.setattr(isr, "is_eligible", lambda follower, brokers: follower.log_end_offset >= 0)


def keeps_in_sync_who_may_have_lost_records(plant: Planter) -> None:
    """A broker stays in ISR and ELR through an unclean restart (rule 8)."""
    plant.setattr(registration, "on_unclean_restart", lambda *_: [])


def takes_into_sync_who_is_behind(plant: Planter) -> None:
    """A replica that lacks committed records joins the ISR."""
    plant.setattr(isr, "_has_all", lambda *_: True)


def remembers_the_farthest_that_a_follower_was(plant: Planter) -> None:
    """A follower that returns with a shorter log counts with its former log end."""
    fetched = ReplicaState.fetched

    def fetched_before(self: ReplicaState, log_end_offset: int, *args: int) -> None:
        fetched(self, max(log_end_offset, self.log_end_offset), *args)

    plant.setattr(ReplicaState, "fetched", fetched_before)


def takes_fetches_of_any_leader_epoch(plant: Planter) -> None:
    """The leader epoch of a request is not checked."""
    check = Partition.check

    def checked(self: Partition, _epoch: int = NO_EPOCH, leader_only: bool = True) -> None:
        check(self, NO_EPOCH, leader_only)

    plant.setattr(Partition, "check", checked)


def never_parts_from_another_log(plant: Planter) -> None:
    """A leader does not compare the log of a follower with its own."""
    plant.setattr(Partition, "_diverging", lambda *_: None)


def takes_who_is_in_sync_for_as_far_as_itself(plant: Planter) -> None:
    """A new leader assumes that the whole ISR has its log end (rule 4)."""
    lead = Partition.lead

    def lead_at_once(self: Partition, image: Any, elapsed_ms: int) -> None:
        epoch = self.leader_epoch
        lead(self, image, elapsed_ms)
        for follower in self.followers.values():
            if epoch < self.leader_epoch and follower.broker in self.isr:
                follower.log_end_offset = self.log.log_end_offset
        self.advance_high_watermark()

    plant.setattr(Partition, "lead", lead_at_once)


def keeps_epochs_that_begin_where_it_cuts(plant: Planter) -> None:
    """A truncation that drops no record keeps the leader epochs (rule 2)."""
    cut = FollowerReplica.cut

    def cut_records(self: FollowerReplica, end_offset: int) -> None:
        if end_offset < self.end_offset:
            cut(self, end_offset)

    plant.setattr(FollowerReplica, "cut", cut_records)


def acknowledges_what_only_the_leader_has(plant: Planter) -> None:
    """A Produce with acks=all is answered at once (rule 6)."""
    plant.setattr(Partition, "committed", lambda self, _end_offset: self.unavailable or ErrorCode.NONE)


def deletes_records_on_the_leader_alone(plant: Planter) -> None:
    """DeleteRecords waits for no follower (rule 23)."""
    plant.setattr(Partition, "low_watermark", property(lambda self: self.log.log_start_offset))


def remembers_no_producers_as_a_follower(plant: Planter) -> None:
    """Followers keep no producer state (rule 10)."""
    append = Log.append_as_follower

    def append_records(self: Log, *args: Any) -> Any:
        producers, self.producers = self.producers, ProducerState()
        try:
            return append(self, *args)
        finally:
            producers.end_offset, self.producers = self.producers.end_offset, producers

    plant.setattr(Log, "append_as_follower", append_records)


def knows_former_topics_by_their_name(plant: Planter) -> None:
    """A request by the id of a deleted topic reaches the next topic of its name (rule 24)."""
    topic_name = ReplicaManager.topic_name
    names: dict[bytes, str] = {}

    def name_for_ever(self: ReplicaManager, topic_id: bytes) -> str | None:
        name = topic_name(self, topic_id)
        if name is not None:
            names[topic_id] = name
        return names.get(topic_id)

    plant.setattr(ReplicaManager, "topic_name", name_for_ever)


def goes_on_with_the_replica_of_a_namesake(plant: Planter) -> None:
    """A replica of a deleted topic becomes one of the next topic of its name (rule 24)."""
    load = ReplicaManager.load

    def load_by_name(self: ReplicaManager, image: MetadataImage) -> None:
        for log in self._logs:
            topic = image.topic(log.topic)
            log.topic_id = log.topic_id if topic is None else topic.topic_id
        load(self, image)

    plant.setattr(ReplicaManager, "load", load_by_name)


def takes_a_log_without_an_id_for_that_of_any_namesake(plant: Planter) -> None:
    """A log that lost its topic id in a power cut becomes a replica of any topic of that name.

    The id is synced only with the first flush of records; otherwise it would rarely be lost.
    """
    load, save_topic_id = ReplicaManager.load, LogFiles.save_topic_id

    def save_unsynced(self: LogFiles, topic_id: bytes) -> None:
        save_topic_id(self, topic_id)
        self.has_new_topic_id = False

    def load_by_name(self: ReplicaManager, image: MetadataImage) -> None:
        for log in self._logs:
            topic = image.topic(log.topic)
            if topic is not None and log.topic_id == ZERO_UUID:
                log.assign_topic_id(topic.topic_id)
        load(self, image)

    plant.setattr(ReplicaManager, "load", load_by_name)
    plant.setattr(LogFiles, "save_topic_id", save_unsynced)


def answers_who_creates_topics_at_once(plant: Planter) -> None:
    """CreateTopics waits for no broker (rule 26)."""

    async def wait_for_nobody(*_: Any) -> None:
        """Return at once; the other brokers learn of the topic later."""

    plant.setattr(topic_creation, "until_served", wait_for_nobody)


def coordinates_before_it_has_loaded(plant: Planter) -> None:
    """A group coordinator answers while it loads (rule 17)."""
    load = ShardHost.load

    async def load_while_serving(self: ShardHost[Any, Any]) -> None:
        self.serve()
        await asyncio.sleep(0.1)  # as long as a long log takes
        await load(self)

    plant.setattr(ShardHost, "load", load_while_serving)


def answers_groups_before_it_is_committed(plant: Planter) -> None:
    """A group coordinator answers before its records are committed (rule 29)."""
    plant.setattr(ShardHost, "after", lambda self, result: result)


def votes_before_that_is_synced(plant: Planter) -> None:
    """A vote is sent before the rename of its file is synced, so that a power cut restores the former file."""
    write = MetadataLog.write_quorum_state

    def write_without_sync(self: MetadataLog, *args: Any) -> None:
        disk: Any = self._disk
        disk.sync_dir = lambda path: None
        try:
            write(self, *args)
        finally:
            del disk.sync_dir

    plant.setattr(MetadataLog, "write_quorum_state", write_without_sync)


def forgets_votes_at_a_restart(plant: Planter) -> None:
    """A restarted voter forgets its vote in the current epoch."""
    read = MetadataLog.read_quorum_state

    def read_without_vote(self: MetadataLog) -> QuorumState:
        return read(self)._replace(voted_id=NO_NODE)

    plant.setattr(MetadataLog, "read_quorum_state", read_without_vote)


def commits_metadata_before_it_is_synced(plant: Planter) -> None:
    """Metadata counts as stored before it is synced."""
    append, receive = MetadataLog.append, MetadataLog.receive

    def append_without_flush(self: MetadataLog, *args: Any) -> None:
        append(self, *args)

    def receive_without_flush(self: MetadataLog, *args: Any) -> Any:
        return receive(self, *args)._replace(flush=None)

    plant.setattr(MetadataLog, "append", append_without_flush)
    plant.setattr(MetadataLog, "receive", receive_without_flush)


def elects_preferred_replicas_that_are_not_in_sync(plant: Planter) -> None:
    """The preferred replica is elected as soon as it is alive, in sync or not."""
    elect = _Target._elect

    def elect_preferred(self: _Target) -> tuple[int, bool]:
        preferred = self.replicas[0]
        if self.election is Election.PREFERRED and preferred not in self.isr and self._lives(preferred):
            self.isr = (preferred, *self.isr)
        return elect(self)

    plant.setattr(_Target, "_elect", elect_preferred)


def says_that_the_log_end_is_the_latest(plant: Planter) -> None:
    """ListOffsets returns the log end for the latest offset, not the high watermark (rule 22)."""
    find_offset = Partition.find_offset

    def find(self: Partition, timestamp: int, isolation: Isolation, *args: Any, **options: Any) -> Search[OffsetFound]:
        found = yield from find_offset(self, timestamp, isolation, *args, **options)
        return found._replace(offset=self.log.log_end_offset) if timestamp == LATEST else found

    plant.setattr(Partition, "find_offset", find)


def keeps_laggards_in_sync(plant: Planter) -> None:
    """A lagging follower never leaves the ISR."""
    plant.setattr(isr_manager, "without_laggards", lambda *_: None)


def keeps_producers_of_truncated_records(plant: Planter) -> None:
    """A truncation keeps the producer state of the records that it drops."""
    truncate = Log.truncate_to

    def truncate_records(self: Log, offset: int) -> bool:
        producers = self.producers
        truncated = truncate(self, offset)
        producers.end_offset, self.producers = self.producers.end_offset, producers
        return truncated

    plant.setattr(Log, "truncate_to", truncate_records)


def ends_epochs_at_the_log_end(plant: Planter) -> None:
    """OffsetForLeaderEpoch returns the log end for every epoch."""
    plant.setattr(Log, "end_offset_for_epoch", lambda self, epoch: EpochEnd(epoch, self.log_end_offset))


def takes_the_high_watermark_of_another_log(plant: Planter) -> None:
    """The high watermark of a follower passes its log end."""

    def update(self: Log, offset: int) -> int:
        self.high_watermark = offset
        return offset

    plant.setattr(Log, "update_high_watermark", update)


def takes_all_directories_offline_with_one(plant: Planter) -> None:
    """All data directories go offline when one fails."""
    due_flushes = LogManager.due_flushes

    def due(self: LogManager, now_ms: int) -> Any:
        for directory in self.directories:
            directory.failure = next((one.failure for one in self.directories if one.failure is not None), None)
        return due_flushes(self, now_ms)

    plant.setattr(LogManager, "due_flushes", due)


BUGS = (
    Bug(cuts_to_its_own_high_watermark, Invariant.ISR_KEEPS_COMMITTED, 1, 0),
    Bug(counts_only_who_is_surely_in_sync, Invariant.COMMITTED_BY_MIN_ISR, 44, 0),
    Bug(counts_proposed_replicas_for_min_isr, Invariant.COMMITTED_BY_MIN_ISR, 1, 0),
    Bug(commits_with_too_few_in_sync, Invariant.COMMITTED_BY_MIN_ISR, 1, 0),
    Bug(elects_preferred_replicas_that_are_not_in_sync, Invariant.HIGH_WATERMARK_RISES, 1, 0),
    Bug(bugs.leaves_settings_out_of_snapshots, Invariant.METADATA_IS_THE_SAME, 2, 0),
    Bug(says_where_it_ends_before_it_knows, Invariant.LATEST_IS_NOT_BEHIND, 44, 0),
    Bug(says_that_the_log_end_is_the_latest, Invariant.LATEST_IS_COMMITTED, 1, 0),
    Bug(takes_any_broker_epoch_into_sync, Invariant.ISR_HAS_COMMITTED, 17, 0),
    Bug(keeps_in_sync_who_may_have_lost_records, Invariant.HIGH_WATERMARK_RISES, 1, 0),
    Bug(takes_into_sync_who_is_behind, Invariant.ISR_HAS_COMMITTED, 7, 0),
    Bug(remembers_the_farthest_that_a_follower_was, Invariant.ISR_HAS_COMMITTED, 17, 0),
    Bug(keeps_laggards_in_sync, Invariant.ACKS_ALL_GOES_ON, 1, 0),
    Bug(takes_fetches_of_any_leader_epoch, Invariant.LEADER_EPOCHS_ARE_FENCED, 1, 0),
    Bug(never_parts_from_another_log, Invariant.COMMITTED_IS_THE_SAME, 44, 0),
    Bug(takes_who_is_in_sync_for_as_far_as_itself, Invariant.ISR_HAS_COMMITTED, 9, 0),
    Bug(keeps_epochs_that_begin_where_it_cuts, Invariant.REPLICAS_CONVERGE, 0, 0),
    Bug(acknowledges_what_only_the_leader_has, Invariant.LATEST_IS_NOT_BEHIND, 7, 0),
    Bug(deletes_records_on_the_leader_alone, Invariant.DELETED_RECORDS_STAY_DELETED, 14, 0),
    Bug(bugs.forgets_sequences, Invariant.RECORDS_ARE_UNIQUE, 7, 0),
    Bug(bugs.remembers_only_the_last_batch, Invariant.SEQUENCES_ARE_KEPT, 44, 0),
    Bug(bugs.answers_repetitions_with_the_log_end, Invariant.RECORDS_STAY, 9, 0),
    Bug(bugs.forgets_producers_at_a_restart, Invariant.RECORDS_ARE_UNIQUE, 9, 0),
    Bug(remembers_no_producers_as_a_follower, Invariant.RECORDS_ARE_UNIQUE, 0, 0),
    Bug(keeps_producers_of_truncated_records, Invariant.PRODUCERS_ARE_TRUNCATED, 32, 0),
    Bug(knows_former_topics_by_their_name, Invariant.FORMER_TOPIC_IDS_ARE_REFUSED, 0, 0),
    Bug(goes_on_with_the_replica_of_a_namesake, Invariant.COMMITTED_IS_THE_SAME, 13, 0),
    Bug(takes_a_log_without_an_id_for_that_of_any_namesake, Invariant.COMMITTED_IS_THE_SAME, 0, 0),
    Bug(answers_who_creates_topics_at_once, Invariant.NEW_TOPICS_ARE_WRITABLE, 2, 0),
    Bug(coordinates_before_it_has_loaded, Invariant.OFFSETS_STAY, 9, 0),
    Bug(answers_groups_before_it_is_committed, Invariant.OFFSETS_STAY, 4, 0),
    Bug(votes_before_that_is_synced, Invariant.VOTES_ARE_KEPT, 60, 0),
    Bug(forgets_votes_at_a_restart, Invariant.VOTES_ARE_KEPT, 1, 0),
    Bug(raft_bugs.commits_earlier_epochs_by_counting, Invariant.QUORUM_COMMITS_ITS_EPOCH, 1, 0),
    Bug(raft_bugs.half_is_a_majority, Invariant.METADATA_ON_A_MAJORITY, 1, 0),
    Bug(ends_epochs_at_the_log_end, Invariant.EPOCHS_END, 9, 0),
    Bug(takes_the_high_watermark_of_another_log, Invariant.OFFSETS_ARE_ORDERED, 1, 0),
    Bug(takes_all_directories_offline_with_one, Invariant.OTHER_DIRECTORIES_SERVE, 9, 0),
    Bug(commits_metadata_before_it_is_synced, Invariant.METADATA_IS_THE_SAME, 49, 1),
)
"""Every bug of several brokers."""
