"""Mistakes that a broker could make with others: as `bugs.py`, for clusters."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from broker import topic_creation
from broker.groups.host import ShardHost
from broker.quorum.metadata_log import MetadataLog
from broker.replication import isr
from broker.replication.follower import NO_EPOCH, Follower
from broker.replication.partition import Partition
from broker.replication.replica_copy import ReplicaCopy
from broker.replication.replica_manager import ReplicaManager
from controller.commands import alter_partition, registration
from controller.image import MetadataImage
from controller.raft_leader import Leadership
from controller.voters import VoterSet
from protocol.errors import ErrorCode
from storage.log import Log
from storage.producer_state import ProducerState


def cuts_to_its_own_high_watermark(plant: pytest.MonkeyPatch) -> None:
    copy_of = ReplicaManager.copy_of

    def cut(self: ReplicaManager, partition: Partition) -> ReplicaCopy:
        copy = copy_of(self, partition)
        copy.cut(partition.high_watermark)
        return copy

    plant.setattr(ReplicaManager, "copy_of", cut)


def counts_only_who_is_surely_in_sync(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(Partition, "maximal_isr", property(lambda self: self.isr & (self.proposed_isr or self.isr)))


def commits_with_too_few_in_sync(plant: pytest.MonkeyPatch) -> None:
    advance = Partition.advance_high_watermark

    def advance_with_anybody(self: Partition) -> bool:
        isr, self.isr = self.isr, frozenset(self.replicas)
        try:
            return advance(self)
        finally:
            self.isr = isr

    plant.setattr(Partition, "advance_high_watermark", advance_with_anybody)
    plant.setattr(Partition, "min_isr", property(lambda self: 1))


def commits_what_only_the_leader_has(plant: pytest.MonkeyPatch) -> None:
    def advance(self: Partition) -> bool:
        before = self.log.high_watermark
        self.log.update_high_watermark(self.log.log_end_offset)
        return self.log.high_watermark > before

    plant.setattr(Partition, "advance_high_watermark", advance)


def says_where_it_ends_before_it_knows(plant: pytest.MonkeyPatch) -> None:
    lead = Partition.lead

    def lead_at_once(self: Partition, *args: Any) -> None:
        lead(self, *args)
        self.epoch_start_offset = 0

    plant.setattr(Partition, "lead", lead_at_once)


def takes_any_broker_epoch_into_sync(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(alter_partition, "_is_eligible", lambda image, replica, epoch: image.is_active(replica))
    plant.setattr(isr, "is_eligible", lambda follower, brokers: follower.log_end_offset >= 0)


def keeps_in_sync_who_may_have_lost_records(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(registration, "on_unclean_restart", lambda *_: [])


def takes_into_sync_who_is_behind(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(isr, "_has_all", lambda *_: True)


def remembers_the_farthest_that_a_follower_was(plant: pytest.MonkeyPatch) -> None:
    fetched = Follower.fetched

    def fetched_before(self: Follower, log_end_offset: int, *args: int) -> None:
        fetched(self, max(log_end_offset, self.log_end_offset), *args)

    plant.setattr(Follower, "fetched", fetched_before)


def takes_fetches_of_any_leader_epoch(plant: pytest.MonkeyPatch) -> None:
    check = Partition.check

    def checked(self: Partition, _epoch: int = NO_EPOCH, leader_only: bool = True) -> None:
        check(self, NO_EPOCH, leader_only)

    plant.setattr(Partition, "check", checked)


def never_parts_from_another_log(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(Partition, "_diverging", lambda *_: None)


def takes_who_is_in_sync_for_as_far_as_itself(plant: pytest.MonkeyPatch) -> None:
    lead = Partition.lead

    def lead_at_once(self: Partition, image: Any, elapsed_ms: int) -> None:
        epoch = self.leader_epoch
        lead(self, image, elapsed_ms)
        for follower in self.followers.values():
            if epoch < self.leader_epoch and follower.broker in self.isr:
                follower.log_end_offset = self.log.log_end_offset
        self.advance_high_watermark()

    plant.setattr(Partition, "lead", lead_at_once)


def keeps_epochs_that_begin_where_it_cuts(plant: pytest.MonkeyPatch) -> None:
    cut = ReplicaCopy.cut

    def cut_records(self: ReplicaCopy, end_offset: int) -> None:
        if end_offset < self.end_offset:
            cut(self, end_offset)

    plant.setattr(ReplicaCopy, "cut", cut_records)


def acknowledges_what_only_the_leader_has(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(Partition, "committed", lambda self, _end_offset: self.unavailable or ErrorCode.NONE)


def deletes_records_on_the_leader_alone(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(Partition, "low_watermark", property(lambda self: self.log.log_start_offset))


def remembers_no_producers_as_a_follower(plant: pytest.MonkeyPatch) -> None:
    append = Log.append_as_follower

    def append_records(self: Log, *args: Any) -> Any:
        producers, self.producers = self.producers, ProducerState()
        try:
            return append(self, *args)
        finally:
            producers.end_offset, self.producers = self.producers.end_offset, producers

    plant.setattr(Log, "append_as_follower", append_records)


def knows_former_topics_by_their_name(plant: pytest.MonkeyPatch) -> None:
    topic_name = ReplicaManager.topic_name
    names: dict[bytes, str] = {}

    def name_for_ever(self: ReplicaManager, topic_id: bytes) -> str | None:
        name = topic_name(self, topic_id)
        if name is not None:
            names[topic_id] = name
        return names.get(topic_id)

    plant.setattr(ReplicaManager, "topic_name", name_for_ever)


def goes_on_with_the_replica_of_a_namesake(plant: pytest.MonkeyPatch) -> None:
    load = ReplicaManager.load

    def load_by_name(self: ReplicaManager, image: MetadataImage) -> None:
        for log in self._logs:
            topic = image.topic(log.topic)
            log.topic_id = log.topic_id if topic is None else topic.topic_id
        load(self, image)

    plant.setattr(ReplicaManager, "load", load_by_name)


def answers_who_creates_topics_at_once(plant: pytest.MonkeyPatch) -> None:
    async def wait_for_nobody(*_: Any) -> None:
        """Whoever does not know of it yet learns of it later."""

    plant.setattr(topic_creation, "until_served", wait_for_nobody)


def coordinates_before_it_has_loaded(plant: pytest.MonkeyPatch) -> None:
    load = ShardHost.load

    async def load_while_serving(self: ShardHost) -> None:
        self.serve()
        await asyncio.sleep(0.1)  # as long as a long log takes
        await load(self)

    plant.setattr(ShardHost, "load", load_while_serving)


def answers_groups_before_it_is_committed(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(ShardHost, "after", lambda self, result: result)


def votes_before_that_is_synced(plant: pytest.MonkeyPatch) -> None:
    write = MetadataLog.write_quorum_state

    def write_without_sync(self: MetadataLog, *args: Any) -> None:
        disk: Any = self._disk
        disk.replace_file = partial(disk.replace_file, sync=False)
        try:
            write(self, *args)
        finally:
            del disk.replace_file

    plant.setattr(MetadataLog, "write_quorum_state", write_without_sync)


def commits_metadata_before_it_is_synced(plant: pytest.MonkeyPatch) -> None:
    append, receive = MetadataLog.append, MetadataLog.receive

    def append_without_flush(self: MetadataLog, *args: Any) -> None:
        append(self, *args)

    def receive_without_flush(self: MetadataLog, *args: Any) -> Any:
        return receive(self, *args)._replace(flush=None)

    plant.setattr(MetadataLog, "append", append_without_flush)
    plant.setattr(MetadataLog, "receive", receive_without_flush)


def commits_metadata_of_earlier_epochs_by_counting(plant: pytest.MonkeyPatch) -> None:
    commit = Leadership.commit

    def commit_anything(self: Leadership, voters: VoterSet) -> bool:
        begun, self.epoch_start = self.epoch_start, -1
        try:
            return commit(self, voters)
        finally:
            self.epoch_start = begun

    plant.setattr(Leadership, "commit", commit_anything)
