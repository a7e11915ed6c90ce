"""Recently fenced leaders: which brokers are listed, and for how long."""

from __future__ import annotations

import pytest

from broker.metadata.recently_fenced import RECENTLY_FENCED_S, RecentlyFenced
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


class Reported:
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
def reported() -> Reported:
    return Reported()


def test_no_broker_is_recently_fenced_at_start(reported: Reported) -> None:
    assert reported.ids == set()


def test_fenced_leader_is_listed_for_limited_time(reported: Reported) -> None:
    reported.become(b1="active", b2="fenced")
    assert reported.ids == {2}
    reported.now_s += RECENTLY_FENCED_S - 0.1
    assert reported.ids == {2}
    reported.now_s += 0.1
    assert reported.ids == set()


def test_unfenced_broker_is_not_recently_fenced(reported: Reported) -> None:
    reported.become(b1="active", b2="fenced")
    reported.become(b1="active", b2="active")
    assert reported.ids == set()


def test_reregistered_broker_is_listed_until_active(reported: Reported) -> None:
    reported.become(b1="active", b2="fenced")
    reported.become(b1="active", b2="fenced")
    assert reported.ids == {2}


def test_fenced_broker_without_leaderships_is_not_listed(reported: Reported) -> None:
    reported.become(b1="active", b2="stopping")
    reported.become(b1="active", b2="fenced")
    assert reported.ids == set()


def test_unregistered_broker_is_not_listed(reported: Reported) -> None:
    reported.become(b1="active", b2="fenced")
    reported.become(b1="active")
    assert reported.ids == set()


def test_initially_fenced_broker_is_not_recently_fenced(reported: Reported) -> None:
    reported.become(b1="active", b2="active", b3="fenced")
    assert reported.ids == set()
