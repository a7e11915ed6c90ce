"""Transactions of unmodified clients, on one broker and on three that are killed in the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess
from tests.chaos.cluster import IDS, Cluster, NoGates
from tests.clients.transactions import PRODUCERS, TIMEOUT_S, ConfluentProducer, producing, read, values

PARTITIONS = 12
RECORDS = 2000
CLUSTER = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
}


@pytest.fixture(params=sorted(PRODUCERS))
def client(request: pytest.FixtureRequest) -> str:
    """The name of a client library."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("three"), NoGates(), CLUSTER) as cluster:
        cluster.wait_until_whole()
        yield cluster
        assert not {node.id: found for node in cluster.nodes.values() if (found := node.complaints())}


def test_consumers_read_committed_records_only(
    broker: BrokerProcess, create_topic: Callable[..., str], client: str
) -> None:
    topic = create_topic()
    with producing(client, broker.bootstrap, topic) as producer:
        for number in range(4):
            producer.begin()
            producer.send(topic, 0, [f"{number} a", f"{number} b"])
            if number % 2:
                producer.abort()
            else:
                producer.commit()
        producer.begin()
        producer.send(topic, 0, ["open"])
        assert values(read(broker.bootstrap, topic)) == ["0 a", "0 b", "2 a", "2 b"]
        everything = values(read(broker.bootstrap, topic, committed=False))
        assert everything == [f"{number} {one}" for number in range(4) for one in "ab"] + ["open"]
        producer.commit()
    assert values(read(broker.bootstrap, topic))[-1] == "open"


def test_open_transaction_hides_what_others_committed_after_it(
    broker: BrokerProcess, create_topic: Callable[..., str], client: str
) -> None:
    topic = create_topic()
    with (
        producing(client, broker.bootstrap, f"{topic}-1") as first,
        producing(client, broker.bootstrap, f"{topic}-2") as second,
        producing(client, broker.bootstrap, f"{topic}-3") as third,
    ):
        for producer in (first, second, third):
            producer.begin()
        third.send(topic, 0, ["third 1"])
        first.send(topic, 0, ["first 1"])
        second.send(topic, 0, ["second 1"])
        third.send(topic, 0, ["third 2"])
        third.commit()
        assert values(read(broker.bootstrap, topic)) == ["third 1"]
        second.commit()
        assert values(read(broker.bootstrap, topic)) == ["third 1"]
        first.abort()
        assert values(read(broker.bootstrap, topic)) == ["third 1", "second 1", "third 2"]


def test_large_transaction_across_partitions_is_atomic(
    broker: BrokerProcess, create_topic: Callable[..., str], client: str
) -> None:
    topic = create_topic(PARTITIONS)
    with producing(client, broker.bootstrap, topic) as producer:
        for committed in (False, True):
            producer.begin()
            for partition in range(PARTITIONS):
                producer.send(topic, partition, [f"{committed} {number} {'x' * 100}" for number in range(RECORDS)])
            assert read(broker.bootstrap, topic, PARTITIONS) == []
            if committed:
                producer.commit()
            else:
                producer.abort()
    found = read(broker.bootstrap, topic, PARTITIONS)
    assert len(found) == PARTITIONS * RECORDS
    for partition in range(PARTITIONS):
        mine = [one.value for one in found if one.partition == partition]
        assert [one.split()[:2] for one in mine] == [["True", str(number)] for number in range(RECORDS)]


def test_rule_15_new_instance_of_a_producer_fences_the_one_before(
    broker: BrokerProcess, create_topic: Callable[..., str], client: str
) -> None:
    topic = create_topic()
    zombie = ConfluentProducer(broker.bootstrap, topic)
    zombie.begin()
    zombie.send(topic, 0, ["zombie"])
    with producing(client, broker.bootstrap, topic) as producer:
        producer.begin()
        producer.send(topic, 0, ["second"])
        with pytest.raises(confluent_kafka.KafkaException) as fenced:
            zombie.send(topic, 0, ["late"])
        assert fenced.value.args[0].fatal()
        producer.commit()
    assert values(read(broker.bootstrap, topic)) == ["second"]


@pytest.mark.parametrize("committed", [True, False])
def test_transaction_continues_after_a_kill_of_its_broker(tmp_path: Path, committed: bool) -> None:
    with BrokerProcess(tmp_path, {"transaction.state.log.num.partitions": 3}) as broker:
        topic = created(broker.bootstrap, "t", partitions=3, copies=1)
        producer = ConfluentProducer(broker.bootstrap, "id")
        producer.begin()
        for partition in range(3):
            producer.send(topic, partition, [f"{partition} before"])
        broker.kill()
        broker.start()
        for partition in range(3):
            producer.send(topic, partition, [f"{partition} after"])
        assert read(broker.bootstrap, topic, 3) == []
        if committed:
            producer.commit()
        else:
            producer.abort()
        expected = [f"{partition} {when}" for partition in range(3) for when in ("before", "after")]
        assert values(read(broker.bootstrap, topic, 3)) == (expected if committed else [])
        broker.kill()
        broker.start()
        assert values(read(broker.bootstrap, topic, 3)) == (expected if committed else [])
        producer.begin()
        producer.send(topic, 0, ["next"])
        producer.commit()
        assert values(read(broker.bootstrap, topic, 3))[-1 if not committed else 2] == "next"
        assert broker.stop() == 0
        broker.check_log()


def test_rule_16_transactions_survive_kills_of_leaders_and_coordinators(cluster: Cluster) -> None:
    """Each broker is killed in turn amid a transaction, and again while it is committed or aborted."""
    topic = created(cluster.bootstrap, "survivors", partitions=6, copies=3)
    producer = ConfluentProducer(cluster.bootstrap, "survivor")
    expected: dict[int, list[str]] = {partition: [] for partition in range(6)}
    for number, victim in enumerate([*IDS, *IDS]):
        producer.begin()
        for partition in range(6):
            producer.send(topic, partition, [f"{number} before"])
        cluster.nodes[victim].kill()
        for partition in range(6):
            producer.send(topic, partition, [f"{number} after"])
        if number % 2:
            producer.abort()
        else:
            producer.commit()
            for mine in expected.values():
                mine += [f"{number} before", f"{number} after"]
        cluster.nodes[victim].start()
        cluster.wait_until_whole()
    found = read(cluster.bootstrap, topic, 6)
    assert {partition: [one.value for one in found if one.partition == partition] for partition in expected} == expected


def created(bootstrap: str, topic: str, *, partitions: int, copies: int) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    (done,) = admin.create_topics([NewTopic(topic, partitions, copies)]).values()
    done.result(TIMEOUT_S)
    return topic
