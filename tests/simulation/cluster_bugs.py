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
from controller.raft.messages import NO_NODE, ElectionState
from protocol.errors import ErrorCode
from protocol.primitives import ZERO_UUID
from simulation import faults
from simulation.violation import Invariant
from storage.log.files import LogFiles
from storage.log.leader_epochs import EpochEnd
from storage.log.log import Log
from storage.log.producer_state import ProducerStateManager
from storage.log_manager import LogManager
from storage.steps import Steps
from tests.planting import Bug, Planter
from tests.simulation import bugs, raft_bugs, simulation

# A power cut takes committed records, a fenced replica becomes an eligible leader, and a start has a recent watermark.
_SETTINGS_FOR_LOSSES = {
    "log.flush.interval.messages": 2**63 - 1,
    "min.insync.replicas": 3,
    "replica.high.watermark.checkpoint.interval.ms": 100,
}


def follower_truncates_to_its_high_watermark(plant: Planter) -> None:
    """A follower truncates to its high watermark, not by leader epoch (rule 1)."""
    follower_replica = ReplicaManager.follower_replica

    def cut(self: ReplicaManager, partition: Partition) -> FollowerReplica:
        replica = follower_replica(self, partition)
        replica.truncate_to(partition.high_watermark)
        return replica

    plant.setattr(ReplicaManager, "follower_replica", cut)


def high_watermark_ignores_pending_isr(plant: Planter) -> None:
    """The high watermark does not wait for a replica whose ISR change is pending (rule 7)."""
    plant.setattr(Partition, "maximal_isr", property(lambda self: self.isr & (self.proposed_isr or self.isr)))


def counts_pending_isr_for_min_isr(plant: Planter) -> None:
    """Replicas that the controller has not yet added to the ISR count for `min.insync.replicas` (rule 3)."""
    advance = Partition.advance_high_watermark

    def advance_with_the_proposed(self: Partition) -> bool:
        isr, self.isr = self.isr, self.maximal_isr
        try:
            return advance(self)
        finally:
            self.isr = isr

    plant.setattr(Partition, "advance_high_watermark", advance_with_the_proposed)


def does_not_check_min_isr(plant: Planter) -> None:
    """`min.insync.replicas` is not checked (rule 5)."""
    advance = Partition.advance_high_watermark

    def advance_without_min_isr(self: Partition) -> bool:
        isr, self.isr = self.isr, frozenset(self.replicas)
        try:
            return advance(self)
        finally:
            self.isr = isr

    plant.setattr(Partition, "advance_high_watermark", advance_without_min_isr)
    plant.setattr(Partition, "min_isr", property(lambda self: 1))


def new_leader_lists_offsets_too_early(plant: Planter) -> None:
    """A new leader answers ListOffsets before its high watermark reaches its epoch (rule 4)."""
    lead = Partition.lead

    def lead_at_once(self: Partition, *args: Any) -> None:
        lead(self, *args)
        self.epoch_start_offset = 0

    plant.setattr(Partition, "lead", lead_at_once)


def joins_isr_with_old_broker_epoch(plant: Planter) -> None:
    """A restarted broker joins the ISR by the fetches of its former incarnation (rule 8)."""
    plant.setattr(
        alter_partition,
        "_is_eligible",
        lambda image, replica, _: replica in image.brokers and image.brokers[replica].active,
    )
    plant.setattr(isr, "is_eligible", lambda follower, brokers: follower.log_end_offset >= 0)


def keeps_isr_through_unclean_restart(plant: Planter) -> None:
    """A broker stays in ISR and ELR through an unclean restart (rule 8).

    It has left the ISR when its session expires, before it registers again. So it stays in the ELR only, and leads only
    after the others have died.
    """
    plant.setattr(registration, "on_unclean_restart", lambda *_: [])
    plant.tune(simulation, "CLUSTER_PAUSES_S", (0.2,))
    plant.tune(simulation, "SETTINGS", _SETTINGS_FOR_LOSSES)
    plant.tune(faults, "WEIGHTS", {**faults.WEIGHTS, "cut_power": 40})
    plant.tune(faults, "CLUSTER_WEIGHTS", {**faults.CLUSTER_WEIGHTS, "kill_others": 60})


def adds_lagging_replica_to_isr(plant: Planter) -> None:
    """A replica that lacks committed records joins the ISR."""
    plant.setattr(isr, "_has_all", lambda *_: True)


def counts_former_log_end_of_follower(plant: Planter) -> None:
    """A follower that returns with a shorter log counts with its former log end."""
    fetched = ReplicaState.fetched

    def fetched_before(self: ReplicaState, log_end_offset: int, *args: int) -> None:
        fetched(self, max(log_end_offset, self.log_end_offset), *args)

    plant.setattr(ReplicaState, "fetched", fetched_before)


def does_not_check_leader_epoch_of_requests(plant: Planter) -> None:
    """The leader epoch of a request is not checked."""
    check = Partition.check

    def checked(self: Partition, _epoch: int = NO_EPOCH, leader_only: bool = True) -> None:
        check(self, NO_EPOCH, leader_only)

    plant.setattr(Partition, "check", checked)


def leader_does_not_detect_divergence(plant: Planter) -> None:
    """A leader does not compare the log of a follower with its own."""
    plant.setattr(Partition, "_diverging", lambda *_: None)


def new_leader_assumes_isr_has_its_log_end(plant: Planter) -> None:
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


def truncation_keeps_empty_leader_epochs(plant: Planter) -> None:
    """A truncation that drops no record keeps the leader epochs (rule 2)."""
    truncate_to = FollowerReplica.truncate_to

    def cut_records(self: FollowerReplica, end_offset: int) -> None:
        if end_offset < self.end_offset:
            truncate_to(self, end_offset)

    plant.setattr(FollowerReplica, "truncate_to", cut_records)


def acks_all_does_not_wait_for_followers(plant: Planter) -> None:
    """A Produce with acks=all is answered at once (rule 6)."""
    plant.setattr(Partition, "committed", lambda self, _end_offset: self.unavailable or ErrorCode.NONE)


def delete_records_does_not_wait_for_followers(plant: Planter) -> None:
    """DeleteRecords waits for no follower (rule 23)."""
    plant.setattr(Partition, "low_watermark", property(lambda self: self.log.log_start_offset))


def followers_keep_no_producer_state(plant: Planter) -> None:
    """Followers keep no producer state (rule 10)."""
    append = Log.append_as_follower

    def append_records(self: Log, *args: Any) -> Any:
        producers, self.producers = self.producers, ProducerStateManager()
        try:
            return append(self, *args)
        finally:
            producers.end_offset, self.producers = self.producers.end_offset, producers

    plant.setattr(Log, "append_as_follower", append_records)


def resolves_deleted_topic_id_by_name(plant: Planter) -> None:
    """A request by the id of a deleted topic reaches the next topic of its name (rule 24)."""
    find = ReplicaManager.find
    names: dict[bytes, str] = {}

    def find_by_name(self: ReplicaManager, topic_id: bytes, index: int) -> Partition | None:
        found = find(self, topic_id, index)
        if found is None:
            return self.find_named(names.get(topic_id, ""), index)
        names[topic_id] = found.topic
        return found

    plant.setattr(ReplicaManager, "find", find_by_name)


def reuses_replica_of_deleted_topic(plant: Planter) -> None:
    """A replica of a deleted topic becomes one of the next topic of its name (rule 24)."""
    load = ReplicaManager.load

    def load_by_name(self: ReplicaManager, image: MetadataImage) -> None:
        for log in self._logs:
            topic = image.topic(log.topic)
            log.topic_id = log.topic_id if topic is None else topic.topic_id
        load(self, image)

    plant.setattr(ReplicaManager, "load", load_by_name)


def assigns_log_without_topic_id_by_name(plant: Planter) -> None:
    """A log that has lost its topic id becomes a replica of any topic of that name.

    No id is stored: a power cut rarely loses one and keeps the records.
    """
    load = ReplicaManager.load

    def load_by_name(self: ReplicaManager, image: MetadataImage) -> None:
        for log in self._logs:
            topic = image.topic(log.topic)
            if topic is not None and log.topic_id == ZERO_UUID:
                log.assign_topic_id(topic.topic_id)
        load(self, image)

    plant.setattr(ReplicaManager, "load", load_by_name)
    plant.setattr(LogFiles, "save_topic_id", lambda _self, _topic_id: None)


def create_topics_does_not_wait_for_brokers(plant: Planter) -> None:
    """CreateTopics waits for no broker (rule 26)."""

    async def do_not_wait(*_: Any) -> None:
        """Return at once; the other brokers learn of the topic later."""

    plant.setattr(topic_creation, "until_served", do_not_wait)


def coordinator_answers_while_loading(plant: Planter) -> None:
    """A group coordinator answers while it loads (rule 17)."""
    load = ShardHost.load

    async def load_while_serving(self: ShardHost[Any, Any]) -> None:
        self.serve()
        await asyncio.sleep(0.1)  # as long as a long log takes
        await load(self)

    plant.setattr(ShardHost, "load", load_while_serving)


def coordinator_answers_before_commit(plant: Planter) -> None:
    """A group coordinator answers before its records are committed (rule 29)."""
    plant.setattr(ShardHost, "after", lambda self, result: result)


def sends_vote_before_sync(plant: Planter) -> None:
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
    # The next flush of the metadata log syncs its directory.
    plant.tune(faults, "CLUSTER_WEIGHTS", {**faults.CLUSTER_WEIGHTS, "cut_power_amid_writes": 100})


def loses_vote_at_restart(plant: Planter) -> None:
    """A restarted voter forgets its vote in the current epoch."""
    read = MetadataLog.read_quorum_state

    def read_without_vote(self: MetadataLog) -> ElectionState:
        return read(self)._replace(voted_id=NO_NODE)

    plant.setattr(MetadataLog, "read_quorum_state", read_without_vote)


def commits_unsynced_metadata(plant: Planter) -> None:
    """Metadata counts as stored before it is synced."""
    append, receive = MetadataLog.append, MetadataLog.receive

    def append_without_flush(self: MetadataLog, *args: Any) -> None:
        append(self, *args)

    def receive_without_flush(self: MetadataLog, *args: Any) -> None:
        receive(self, *args)

    plant.setattr(MetadataLog, "append", append_without_flush)
    plant.setattr(MetadataLog, "receive", receive_without_flush)


def elects_preferred_replicas_out_of_sync(plant: Planter) -> None:
    """The preferred replica is elected as soon as it is alive, in sync or not."""
    elect = _Target._elect

    def elect_preferred(self: _Target) -> tuple[int, bool]:
        preferred = self.replicas[0]
        if self.election is Election.PREFERRED and preferred not in self.isr and self._is_live(preferred):
            self.isr = (preferred, *self.isr)
        return elect(self)

    plant.setattr(_Target, "_elect", elect_preferred)


def latest_offset_is_log_end(plant: Planter) -> None:
    """ListOffsets returns the log end for the latest offset, not the high watermark (rule 22)."""
    find_offset = Partition.find_offset

    def find(self: Partition, timestamp: int, isolation: Isolation, *args: Any, **options: Any) -> Steps[OffsetFound]:
        found = yield from find_offset(self, timestamp, isolation, *args, **options)
        return found._replace(offset=self.log.log_end_offset) if timestamp == LATEST else found

    plant.setattr(Partition, "find_offset", find)


def keeps_lagging_followers_in_isr(plant: Planter) -> None:
    """A lagging follower never leaves the ISR."""
    plant.setattr(isr_manager, "without_laggards", lambda *_: None)


def truncation_keeps_producer_state(plant: Planter) -> None:
    """A truncation keeps the producer state of the records that it drops."""
    truncate = Log.truncate_to

    def truncate_records(self: Log, offset: int) -> bool:
        producers = self.producers
        truncated = truncate(self, offset)
        producers.end_offset, self.producers = self.producers.end_offset, producers
        return truncated

    plant.setattr(Log, "truncate_to", truncate_records)


def leader_epochs_end_at_log_end(plant: Planter) -> None:
    """OffsetForLeaderEpoch returns the log end for every epoch."""
    plant.setattr(Log, "end_offset_for_epoch", lambda self, epoch: EpochEnd(epoch, self.log_end_offset))


def follower_high_watermark_passes_log_end(plant: Planter) -> None:
    """The high watermark of a follower passes its log end."""

    def update(self: Log, offset: int) -> int:
        self.high_watermark = offset
        return offset

    plant.setattr(Log, "update_high_watermark", update)


def all_directories_go_offline_with_one(plant: Planter) -> None:
    """All data directories go offline when one fails."""
    due_flushes = LogManager.due_flushes

    def due(self: LogManager, now_ms: int) -> Any:
        for directory in self.directories:
            directory.failure = next((one.failure for one in self.directories if one.failure is not None), None)
        return due_flushes(self, now_ms)

    plant.setattr(LogManager, "due_flushes", due)


BUGS = (
    Bug(follower_truncates_to_its_high_watermark, Invariant.ISR_KEEPS_COMMITTED, 1, 0),
    Bug(high_watermark_ignores_pending_isr, Invariant.COMMITTED_BY_MIN_ISR, 44, 0),
    Bug(counts_pending_isr_for_min_isr, Invariant.COMMITTED_BY_MIN_ISR, 1, 0),
    Bug(does_not_check_min_isr, Invariant.COMMITTED_BY_MIN_ISR, 1, 0),
    Bug(elects_preferred_replicas_out_of_sync, Invariant.HIGH_WATERMARK_RISES, 49, 0),
    Bug(bugs.omits_topic_configs_from_snapshots, Invariant.METADATA_IS_THE_SAME, 2, 0),
    Bug(new_leader_lists_offsets_too_early, Invariant.LATEST_IS_NOT_BEHIND, 3, 0),
    Bug(latest_offset_is_log_end, Invariant.LATEST_IS_COMMITTED, 1, 0),
    Bug(joins_isr_with_old_broker_epoch, Invariant.ISR_HAS_COMMITTED, 17, 0),
    Bug(keeps_isr_through_unclean_restart, Invariant.HIGH_WATERMARK_RISES, 24, 0),
    Bug(adds_lagging_replica_to_isr, Invariant.ISR_HAS_COMMITTED, 7, 0),
    Bug(counts_former_log_end_of_follower, Invariant.ISR_HAS_COMMITTED, 17, 0),
    Bug(keeps_lagging_followers_in_isr, Invariant.ACKS_ALL_GOES_ON, 1, 0),
    Bug(does_not_check_leader_epoch_of_requests, Invariant.LEADER_EPOCHS_ARE_FENCED, 1, 0),
    Bug(leader_does_not_detect_divergence, Invariant.COMMITTED_IS_THE_SAME, 44, 0),
    Bug(new_leader_assumes_isr_has_its_log_end, Invariant.ISR_HAS_COMMITTED, 0, 0),
    Bug(truncation_keeps_empty_leader_epochs, Invariant.REPLICAS_CONVERGE, 1, 0),
    Bug(acks_all_does_not_wait_for_followers, Invariant.LATEST_IS_NOT_BEHIND, 7, 0),
    Bug(delete_records_does_not_wait_for_followers, Invariant.DELETED_RECORDS_STAY_DELETED, 11, 0),
    Bug(bugs.ignores_producer_sequences, Invariant.RECORDS_ARE_UNIQUE, 7, 0),
    Bug(bugs.remembers_only_last_producer_batch, Invariant.SEQUENCES_ARE_KEPT, 11, 0),
    Bug(bugs.answers_duplicates_with_log_end, Invariant.RECORDS_STAY, 44, 0),
    Bug(bugs.loses_producer_state_at_restart, Invariant.RECORDS_ARE_UNIQUE, 1, 0),
    Bug(followers_keep_no_producer_state, Invariant.RECORDS_ARE_UNIQUE, 7, 0),
    Bug(truncation_keeps_producer_state, Invariant.PRODUCERS_ARE_TRUNCATED, 11, 0),
    Bug(resolves_deleted_topic_id_by_name, Invariant.FORMER_TOPIC_IDS_ARE_REFUSED, 0, 0),
    Bug(reuses_replica_of_deleted_topic, Invariant.COMMITTED_IS_THE_SAME, 8, 0),
    Bug(assigns_log_without_topic_id_by_name, Invariant.COMMITTED_IS_THE_SAME, 13, 0),
    Bug(create_topics_does_not_wait_for_brokers, Invariant.NEW_TOPICS_ARE_WRITABLE, 1, 0),
    Bug(coordinator_answers_while_loading, Invariant.OFFSETS_STAY, 37, 0),
    Bug(coordinator_answers_before_commit, Invariant.OFFSETS_STAY, 11, 0),
    Bug(sends_vote_before_sync, Invariant.VOTES_ARE_KEPT, 20, 0),
    Bug(loses_vote_at_restart, Invariant.VOTES_ARE_KEPT, 7, 0),
    Bug(raft_bugs.commits_earlier_epochs_by_counting, Invariant.QUORUM_COMMITS_ITS_EPOCH, 1, 0),
    Bug(raft_bugs.half_counts_as_majority, Invariant.METADATA_ON_A_MAJORITY, 1, 0),
    Bug(leader_epochs_end_at_log_end, Invariant.EPOCHS_END, 11, 0),
    Bug(follower_high_watermark_passes_log_end, Invariant.OFFSETS_ARE_ORDERED, 1, 0),
    Bug(all_directories_go_offline_with_one, Invariant.OTHER_DIRECTORIES_SERVE, 19, 0),
    Bug(commits_unsynced_metadata, Invariant.METADATA_ON_A_MAJORITY, 1, 0),
)
"""Every bug of several brokers."""
