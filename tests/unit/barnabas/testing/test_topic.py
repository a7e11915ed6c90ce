from __future__ import annotations

import threading
import time
from itertools import islice

import pytest
from confluent_kafka import Producer

from barnabas.testing import Cluster, ClusterError, WaitTimeout
from barnabas.testing._leaders import Leaders, NoLeader
from barnabas.testing._nodes import Nodes, retry_pauses_s
from barnabas.testing.records import Position


def test_a_new_topic_is_usable_on_every_broker(three: Cluster) -> None:
    for _ in range(20):
        topic = three.topic(partitions=3)
        for broker in three.brokers:
            described = broker.control.call("GET", f"/v1/topics/{topic}")
            assert [len(one["isr"]) for one in described["partitions"]] == [3] * 3
        assert len(topic.produce([{"partition": number, "value": "v"} for number in range(3)])) == 3


def test_a_topic_has_the_given_replication_factor_and_configs(three: Cluster) -> None:
    topic = three.topic(replication_factor=2, config={"cleanup.policy": "compact", "segment.bytes": 1 << 20})
    assert len(topic.describe()["partitions"][0]["replicas"]) == 2
    with pytest.raises(ClusterError, match="TOPIC_ALREADY_EXISTS"):
        three.topic(topic.name)


def test_records_come_back_as_they_were_produced(one: Cluster) -> None:
    topic = one.topic(partitions=3)
    key = {"key": "k", "value": b"\xff", "headers": {"h": "x"}, "timestamp_ms": 1_700_000_000_000}
    places = topic.produce(["a", "b", "c", key, ("k", None)])
    assert places[:3] == [Position(0, 0), Position(1, 0), Position(2, 0)]
    assert places[4] == Position(places[3].partition, places[3].offset + 1)
    records = {Position(record.partition, record.offset): record for record in topic.records()}
    assert [records[place].value for place in places] == [b"a", b"b", b"c", b"\xff", None]
    assert records[places[3]].headers == (("h", b"x"),)
    assert records[places[3]].timestamp_ms == 1_700_000_000_000


def test_records_of_partitions_with_different_leaders_are_read_and_written_together(three: Cluster) -> None:
    topic = three.topic(partitions=6)
    assert set(topic.leaders.values()) == {1, 2, 3}
    topic.produce([f"{number}" for number in range(12)])
    assert sorted(int(record.value or b"") for record in topic.records()) == list(range(12))


def test_the_leader_of_a_partition_is_a_broker_that_can_be_killed(three: Cluster) -> None:
    topic = three.topic(partitions=2, replication_factor=1)
    leader = topic.leader(1)
    assert leader is three.brokers[topic.leaders[1] - 1]
    assert repr(leader) == f"<Broker {leader.node_id} at {leader.bootstrap}>"
    with pytest.raises(ClusterError, match=rf"topic {topic} has no partition 2; it has: 0, 1"):
        topic.leader(2)
    leader.kill()
    without = pytest.raises(ClusterError, match=rf"{topic}-1 has no leader at present; .*{leader.node_id} was killed")
    with without:
        while topic.leader(1) is leader:  # until the others have noticed
            pass


def test_a_partition_that_does_not_exist_is_refused(one: Cluster) -> None:
    with pytest.raises(ClusterError, match="has 1 partitions, and no partition 1"):
        one.topic().produce([{"partition": 1}])


def test_expect_returns_when_a_client_has_produced_so_many_records(three: Cluster) -> None:
    """Each partition has another leader: the wait is for any of them."""
    topic = three.topic(partitions=3)
    producer = Producer({"bootstrap.servers": three.bootstrap})

    def produce() -> None:
        for number in range(3):
            producer.produce(topic.name, str(number).encode(), partition=number)
            producer.flush()

    thread = threading.Thread(target=produce)
    thread.start()
    assert [record.value for record in topic.expect(3, timeout=60)] == [b"0", b"1", b"2"]
    thread.join()


def test_expect_waits_for_a_topic_that_does_not_exist_yet(one: Cluster) -> None:
    topic = one.topic(one.name_prefix + "later", create=False)
    thread = threading.Thread(target=lambda: one.topic(topic.name).produce(["a"]))
    thread.start()
    assert len(topic.expect(1, timeout=60)) == 1
    thread.join()


def test_expect_counts_the_records_that_fulfil_a_condition(one: Cluster) -> None:
    topic = one.topic()
    topic.produce(["a", "b", "a"])
    assert len(topic.expect(2, where=lambda record: record.value == b"a")) == 2


def test_expect_in_vain_says_what_there_is(one: Cluster) -> None:
    topic = one.topic(partitions=2)
    topic.produce(["a"])
    with pytest.raises(WaitTimeout) as late:
        topic.expect(2, timeout=0.01)
    assert str(late.value).startswith(
        f"topic {topic}: 2 records expected within 0.01 s, found 1: 0@0: 'a'; next offsets by partition: {{0: 1, 1: 0}}"
    )
    with pytest.raises(WaitTimeout, match=rf"topic {topic}: 0 records expected, found 1"):
        topic.expect(0)


def test_expect_of_a_topic_that_never_exists_says_which_there_are(one: Cluster) -> None:
    topic = one.topic()
    with pytest.raises(WaitTimeout, match=rf"knows no topic nowhere, only: .*{topic}"):
        one.topic("nowhere", create=False).expect(1, timeout=0.01)


def test_records_of_open_and_aborted_transactions_are_read_if_asked_for(one: Cluster) -> None:
    topic = one.topic()
    producer = Producer({"bootstrap.servers": one.bootstrap, "transactional.id": topic.name})
    producer.init_transactions()
    for value, end in (("kept", producer.commit_transaction), ("aborted", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic.name, value)
        producer.flush()
        end()
    assert [record.value for record in topic.expect(1)] == [b"kept"]
    assert [record.value for record in topic.records("read_uncommitted")] == [b"kept", b"aborted"]


def test_records_move_to_the_new_leader_when_theirs_is_killed(three: Cluster) -> None:
    topic = three.topic()
    topic.produce(["before"])
    leader = topic.leaders[0]
    three.brokers[leader - 1].kill()
    topic.produce(["after"])
    assert [record.value for record in topic.expect(2)] == [b"before", b"after"]
    assert topic.leaders[0] != leader


def test_requests_for_a_partition_without_a_leader_come_ever_more_seldom() -> None:
    pauses_s = list(islice(retry_pauses_s(), 50))
    assert pauses_s[0] == 0.01
    assert pauses_s == sorted(pauses_s)
    assert sum(pauses_s) > 10
    calls = []
    with pytest.raises(NoLeader):
        Leaders(Nodes([]), "orders").until_led(lambda: calls.append(1), time.monotonic() + 0.5)
    assert len(calls) <= 10


def test_a_deleted_topic_is_gone(one: Cluster) -> None:
    topic = one.topic()
    topic.delete()
    assert topic.name not in one.existing().topics


def test_a_leader_moves_to_the_named_broker_on_all_brokers(three: Cluster) -> None:
    topic = three.topic(partitions=2)
    target = three.brokers[topic.leaders[1] % 3]
    topic.move_leader(target, partition=1)
    seen = [broker.control.call("GET", f"/v1/topics/{topic}")["partitions"][1]["leader"] for broker in three.brokers]
    assert seen == [target.node_id] * 3
    topic.produce([{"partition": 1, "value": "a"}])
    with pytest.raises(ClusterError, match="9"):
        topic.move_leader(9)


def test_one_text_is_no_list_of_records(one: Cluster) -> None:
    with pytest.raises(TypeError, match=r"produce\(\['abc'\]\)"):
        one.topic().produce("abc")
