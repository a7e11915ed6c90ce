"""Placement of the replicas of new partitions, for any set of brokers."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from controller.replica_placer import UsableBroker, place_replicas

BROKERS = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from([None, "a", "b", "c"]), st.booleans()),
    min_size=1,
    max_size=12,
    unique_by=lambda row: row[0],
).map(lambda rows: [UsableBroker(*row) for row in rows])


@given(BROKERS.filter(lambda brokers: not all(one.fenced for one in brokers)), st.data())
def test_replicas_are_spread_over_racks_and_live_brokers(brokers: list[UsableBroker], data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    partitions = data.draw(st.integers(1, 40))
    random = Random(data.draw(st.integers(0, 1000)))
    placed = place_replicas(brokers, partitions, factor, random, first_partition=data.draw(st.integers(0, 20)))
    known = {broker.broker_id: broker for broker in brokers}
    by_rack = Counter(broker.rack for broker in brokers)
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert not known[replicas[0]].fenced
        in_rack = Counter(known[replica].rack for replica in replicas)
        # No rack has two replicas more than another while that one has a broker left.
        room = [in_rack[rack] for rack, size in by_rack.items() if in_rack[rack] < size]
        assert max(in_rack.values()) <= min(room, default=factor) + 1
        for rack, taken in in_rack.items():
            living = sum(1 for broker in brokers if broker.rack == rack and not broker.fenced)
            fenced = sum(1 for replica in replicas if known[replica].rack == rack and known[replica].fenced)
            assert fenced == max(0, taken - living)


@given(BROKERS.filter(lambda brokers: not all(one.fenced for one in brokers)), st.integers(1, 60), st.integers(0, 99))
def test_leaders_are_spread_evenly_over_live_brokers(brokers: list[UsableBroker], partitions: int, seed: int) -> None:
    leaders = Counter(replicas[0] for replicas in place_replicas(brokers, partitions, 1, Random(seed)))
    found = [leaders[broker.broker_id] for broker in brokers if not broker.fenced]
    assert max(found) - min(found) <= 1


@given(st.integers(1, 3), st.integers(1, 4), st.data())
def test_equal_racks_give_each_broker_as_many_replicas(racks: int, members: int, data: st.DataObject) -> None:
    count = racks * members
    factor = data.draw(st.integers(1, count))
    brokers = [UsableBroker(number, f"rack{number % racks}", False) for number in range(count)]
    rounds = count * max(1, count - 1)
    placed = place_replicas(brokers, rounds, factor, Random(data.draw(st.integers(0, 99))))
    assert set(Counter(replica for replicas in placed for replica in replicas).values()) == {rounds * factor // count}
