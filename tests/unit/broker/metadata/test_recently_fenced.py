"""Recently fenced leaders: which brokers are listed, and for how long."""

from __future__ import annotations

import pytest

from broker.metadata.recently_fenced import TOLD_FOR_S, RecentlyFenced
from controller.image import BrokerImage, Endpoint, MetadataImage, PartitionImage, TopicImage


def image(*, leader: int = -1, **brokers: str) -> MetadataImage:
    """Return an image of brokers that are "active", "fenced" or "stopping", and of one partition."""
    partition = PartitionImage(0, (1, 2), (1, 2), leader, 0, 0, (bytes(16),) * 2)
    return MetadataImage(
        cluster_id="c",
        topics={"t": TopicImage("t", bytes(16), {0: partition})},
        brokers={
            int(name[1:]): BrokerImage(
                broker_id=int(name[1:]),
                epoch=0,
                incarnation_id=bytes(16),
                endpoints={"PLAINTEXT": Endpoint("host", 1)},
                features={},
                rack=None,
                fenced=state == "fenced",
                in_controlled_shutdown=state == "stopping",
                directories=(bytes(16),),
            )
            for name, state in brokers.items()
        },
    )


class Told:
    """A `RecentlyFenced` with a manual clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.image = image(b1="active", b2="active", leader=2)
        self.lost = RecentlyFenced(lambda: self.now_s)

    def become(self, *, leader: int = 1, **brokers: str) -> None:
        before, self.image = self.image, image(leader=leader, **brokers)
        self.lost.apply(before, self.image, ())

    @property
    def ids(self) -> frozenset[int]:
        return self.lost.ids(self.image)


@pytest.fixture
def told() -> Told:
    return Told()


def test_nobody_is_lost_at_first(told: Told) -> None:
    assert told.ids == set()


def test_a_leader_that_is_fenced_is_told_of_for_a_moment(told: Told) -> None:
    told.become(b1="active", b2="fenced")
    assert told.ids == {2}
    told.now_s += TOLD_FOR_S - 0.1
    assert told.ids == {2}
    told.now_s += 0.1
    assert told.ids == set()


def test_a_broker_that_is_heard_again_is_not_lost(told: Told) -> None:
    told.become(b1="active", b2="fenced")
    told.become(b1="active", b2="active")
    assert told.ids == set()


def test_a_broker_that_registers_again_is_still_told_of_until_it_is_active(told: Told) -> None:
    told.become(b1="active", b2="fenced")
    told.become(b1="active", b2="fenced")
    assert told.ids == {2}


def test_a_broker_that_led_nothing_any_more_is_not_told_of(told: Told) -> None:
    told.become(b1="active", b2="stopping")
    told.become(b1="active", b2="fenced")
    assert told.ids == set()


def test_a_broker_that_is_unregistered_is_not_told_of(told: Told) -> None:
    told.become(b1="active", b2="fenced")
    told.become(b1="active")
    assert told.ids == set()


def test_a_broker_that_was_fenced_from_the_first_is_not_lost(told: Told) -> None:
    told.become(b1="active", b2="active", b3="fenced")
    assert told.ids == set()
