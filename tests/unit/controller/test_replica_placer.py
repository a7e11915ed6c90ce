"""Replica placement and the choice of a partition's first leader."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from controller.replica_placer import UsableBroker, place_replicas
from protocol.errors import ErrorCode, KafkaError


def brokers(count: int, racks: int = 0, fenced: tuple[int, ...] = ()) -> list[UsableBroker]:
    return [
        UsableBroker(number, f"rack{number % racks}" if racks else None, number in fenced)
        for number in range(1, count + 1)
    ]


def test_replicas_of_a_partition_are_on_different_brokers() -> None:
    for replicas in place_replicas(brokers(5), 50, 3, Random(1)):
        assert len(set(replicas)) == 3


def test_leaders_and_followers_are_spread_evenly() -> None:
    placed = place_replicas(brokers(5), 100, 3, Random(1))
    assert set(Counter(replicas[0] for replicas in placed).values()) == {20}
    followers = Counter(replica for replicas in placed for replica in replicas[1:])
    assert max(followers.values()) - min(followers.values()) <= 8


def test_the_followers_of_one_leader_vary() -> None:
    placed = place_replicas(brokers(5), 100, 2, Random(1))
    for leader in range(1, 6):
        assert len({replicas[1] for replicas in placed if replicas[0] == leader}) == 4


def test_each_replica_is_on_another_rack_while_there_are_racks() -> None:
    rack_of = {broker.broker_id: broker.rack for broker in brokers(9, racks=3)}
    for replicas in place_replicas(brokers(9, racks=3), 60, 3, Random(1)):
        assert len({rack_of[replica] for replica in replicas}) == 3


def test_more_replicas_than_racks_can_be_placed() -> None:
    for replicas in place_replicas(brokers(6, racks=2), 20, 5, Random(1)):
        assert len(set(replicas)) == 5


def test_another_rack_is_preferred_over_an_active_broker() -> None:
    placed = place_replicas(brokers(4, racks=2, fenced=(2, 4)), 20, 2, Random(1))
    assert {replicas[0] for replicas in placed} == {1, 3}
    assert {replicas[1] for replicas in placed} == {2, 4}


def test_remaining_replicas_are_spread_over_the_racks() -> None:
    for replicas in place_replicas(brokers(8, racks=2), 60, 4, Random(1)):
        assert sorted(replica % 2 for replica in replicas) == [0, 0, 1, 1]


def test_fenced_brokers_are_placed_last_and_never_as_leader() -> None:
    for replicas in place_replicas(brokers(4, fenced=(2,)), 20, 3, Random(1)):
        assert 2 not in replicas
    for replicas in place_replicas(brokers(3, fenced=(2,)), 20, 3, Random(1)):
        assert replicas[2] == 2


def test_placement_depends_only_on_the_random_seed() -> None:
    placed = [tuple(place_replicas(brokers(5), 4, 2, Random(seed))) for seed in range(20)]
    assert len(set(placed)) > 5
    assert placed == [tuple(place_replicas(brokers(5), 4, 2, Random(seed))) for seed in range(20)]


@pytest.mark.parametrize(
    ("count", "fenced", "factor", "message"),
    [
        (2, (), 3, "factor of 3 cannot be reached because only 2 broker"),
        (2, (1,), 3, "only 2 broker"),
        (2, (1, 2), 1, "All brokers are currently fenced"),
        (2, (1, 2), 3, "All brokers are currently fenced"),
        (0, (), 1, "All brokers are currently fenced"),
    ],
)
def test_too_few_brokers_are_an_error(count: int, fenced: tuple[int, ...], factor: int, message: str) -> None:
    with pytest.raises(KafkaError, match=message) as too_few:
        place_replicas(brokers(count, fenced=fenced), 1, factor, Random(1))
    assert too_few.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
