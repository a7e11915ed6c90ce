from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from barnabas.testing import Cluster, Group, Topic, WaitTimeout


@contextmanager
def consuming(cluster: Cluster, group: Group, topic: Topic, client_id: str) -> Iterator[Consumer]:
    """Run a consumer in a thread, which commits what it has read."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group.name,
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic.name])
    ended = threading.Event()

    def poll() -> None:
        while not ended.is_set():
            if consumer.poll(0.05) is not None:
                consumer.commit(asynchronous=False)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield consumer
    finally:
        ended.set()
        thread.join()
        consumer.close()


def test_a_stable_group_has_its_members_with_all_partitions(one: Cluster) -> None:
    topic, group = one.topic(partitions=3), one.group()
    with consuming(one, group, topic, "a"), consuming(one, group, topic, "b"):
        members = group.wait_stable(members=2, timeout=60)
        assert {member.client_id for member in members} == {"a", "b"}
        assert sorted(one for member in members for one in member.assignment[topic.name]) == [0, 1, 2]
    group.wait_empty(60)


def test_a_group_with_committed_offsets_has_no_lag(three: Cluster) -> None:
    topic, group = three.topic(partitions=3), three.group()
    topic.produce(["x"] * 9)
    with consuming(three, group, topic, "a"):
        group.expect_lag(0, timeout=60)
        assert group.committed == {topic.name: {0: 3, 1: 3, 2: 3}}
    topic.produce(["x"])
    group.expect_lag(1, [topic], timeout=60)


def test_waits_in_vain_say_what_there_is(one: Cluster) -> None:
    topic, group = one.topic(), one.group()
    with pytest.raises(WaitTimeout, match=f"group {group} is stable with 2 members: not within 0.01 s; no member"):
        group.wait_stable(members=2, timeout=0.01)
    topic.produce(["x"] * 2)
    with consuming(one, group, topic, "me"):
        group.expect_lag(0, timeout=60)
        with pytest.raises(WaitTimeout, match=r"is Stable in generation 1; .*me"):
            group.wait_stable(members=2, timeout=0.01)
    topic.produce(["x"])
    with pytest.raises(WaitTimeout, match=rf"its lag is 1; {topic}-0: committed 2 of 3"):
        group.expect_lag(0, timeout=0.01)


def test_a_forced_rebalance_is_another_generation_and_an_expired_member_is_gone(one: Cluster) -> None:
    topic, group = one.topic(), one.group()
    with consuming(one, group, topic, "me"):
        group.wait_stable(members=1, timeout=60)
        before = group.describe()["generation"]
        group.rebalance()
        group.wait_stable(members=1, timeout=60)
        assert group.describe()["generation"] > before
        (member,) = group.members
        assert group.expire(client_id="me") == [member.member_id]
        (again,) = group.wait_stable(members=1, timeout=60)
        assert again.member_id != member.member_id


def test_a_wait_that_ends_while_the_coordinator_is_looked_for_says_what_was_seen(three: Cluster) -> None:
    with pytest.raises(WaitTimeout, match=r"no member of group \S+ has joined|is loading group|coordinator"):
        three.group().wait_stable(members=1, timeout=0.0)
