"""Mistakes that a broker could make with others: as `bugs.py`, for clusters."""

from __future__ import annotations

from typing import Any

import pytest

from broker import isr
from broker.follower import NO_EPOCH, Follower
from broker.partition import Partition
from broker.replica_copy import ReplicaCopy
from broker.replica_manager import ReplicaManager
from controller.commands import alter_partition, registration


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


def counts_what_followers_had_in_earlier_epochs(plant: pytest.MonkeyPatch) -> None:
    follow, lead = Partition.follow, Partition.lead
    known: dict[Partition, dict[int, Follower]] = {}

    def lead_with_all(self: Partition, image: Any, elapsed_ms: int) -> None:
        before = {**known.get(self, {}), **self.followers}
        lead(self, image, elapsed_ms)
        self.followers.update({broker: one for broker, one in before.items() if broker in self.followers})
        self.recount()
        self.advance_high_watermark()

    def follow_and_remember(self: Partition, image: Any) -> None:
        known.setdefault(self, {}).update(self.followers)
        follow(self, image)

    plant.setattr(Partition, "lead", lead_with_all)
    plant.setattr(Partition, "follow", follow_and_remember)
