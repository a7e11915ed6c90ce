"""MirrorMaker 2 between two clusters, both ways: records once, groups' offsets translated, though it is killed.

Without `COMPLETE_TRANSACTIONS`, a race in the Java producer can end a source task with "already flushing".
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests import proofs
from tests.applications.connect import COMPLETE_TRANSACTIONS, PLUGINS, write_properties
from tests.applications.jvm import Process, java
from tests.applications.topics import Reader, committed_offsets, create_topics, produce
from tests.broker_process import QUICK_GROUPS, BrokerProcess
from tests.chaos.cluster import wait_until
from tests.oracles.kafka_server import KafkaServer

RECORDS = 2000
MORE_RECORDS = 20_000
TIMEOUT_S = 120.0
BROKER = {
    **QUICK_GROUPS,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


def settings(first: str, second: str) -> dict[str, object]:
    """Return the settings that mirror "orders" from a to b and "payments" from b to a."""
    own_topics = ("", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.")
    connects_topics = ("offset.storage.", "status.storage.", "config.storage.")
    return {
        "clusters": "a,b",
        "a.bootstrap.servers": first,
        "b.bootstrap.servers": second,
        "a->b.enabled": True,
        "b->a.enabled": True,
        "a->b.topics": "orders",
        "b->a.topics": "payments",
        "tasks.max": 1,
        "sync.group.offsets.enabled": True,
        "sync.group.offsets.interval.seconds": 1,
        "emit.checkpoints.interval.seconds": 1,
        "emit.heartbeats.interval.seconds": 1,
        "refresh.topics.interval.seconds": 1,
        "refresh.groups.interval.seconds": 1,
        # At most 10 synchronized offsets can be in flight. With few of them, the last one is sent with the last commit;
        # otherwise it would wait for the next commit, and there is none without another record.
        "offset.lag.max": 1000,
        "offset.flush.interval.ms": 500,
        "offset.storage.partitions": 1,
        "status.storage.partitions": 1,
        "a.exactly.once.source.support": "enabled",
        "b.exactly.once.source.support": "enabled",
        # The open transactions of a killed MirrorMaker end soon: its workers read to the end of topics with them. It
        # leaves its groups soon, and its tasks move at once.
        "a.producer.transaction.timeout.ms": 10_000,
        "b.producer.transaction.timeout.ms": 10_000,
        "session.timeout.ms": 3000,
        "heartbeat.interval.ms": 500,
        "scheduled.rebalance.max.delay.ms": 0,
        **{f"{cluster}{name}": value for cluster in ("", "a.", "b.") for name, value in PLUGINS.items()},
        **{f"{mirror}.{name}": value for mirror in ("a->b", "b->a") for name, value in COMPLETE_TRANSACTIONS.items()},
        **{f"{name}replication.factor": 1 for name in (*own_topics, *connects_topics)},
    }


@pytest.fixture(params=["barnabas", "apache-kafka"])
def clusters(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The addresses of a cluster of ours, and of another of ours or of Apache Kafka's."""
    with BrokerProcess(tmp_path / "a", BROKER) as ours:
        if request.param == "barnabas":
            with BrokerProcess(tmp_path / "b", BROKER) as theirs:
                yield ours.bootstrap, theirs.bootstrap
            theirs.check_log()
        else:
            kafka = KafkaServer(tmp_path / "b", BROKER)
            try:
                kafka.wait()
                yield ours.bootstrap, kafka.bootstrap
            finally:
                kafka.stop()
    ours.check_log()


def consume_and_commit(bootstrap: str, group: str, topic: str, count: int) -> None:
    """Read `count` records as the only member of a group, commit and leave."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read = 0

    def poll() -> bool:
        nonlocal read
        read += sum(message.error() is None for message in consumer.consume(500, 0.2))
        return read == count

    wait_until(poll, f"{count} records of {topic}", TIMEOUT_S)
    consumer.commit(asynchronous=False)
    consumer.close()


def wait_for_translation(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Return once MirrorMaker has committed this offset for the group of the other cluster."""
    wait_until(
        lambda: committed_offsets(bootstrap, group, topic) == [offset],
        lambda: f"{offset} committed by {group}: {committed_offsets(bootstrap, group, topic)}",
        TIMEOUT_S,
    )


def test_records_arrive_once_and_groups_go_on_at_the_other_cluster(clusters: tuple[str, str], tmp_path: Path) -> None:
    first, second = clusters
    sent: dict[str, list[tuple[str | None, str | None]]] = {
        "orders": [(f"customer{number % 7}", f"order {number}") for number in range(RECORDS + MORE_RECORDS)],
        "payments": [(None, f"payment {number}") for number in range(RECORDS)],
    }
    create_topics(first, ["orders"])
    create_topics(second, ["payments", "a.orders"])
    produce(first, "orders", sent["orders"][:RECORDS])
    consume_and_commit(first, "shop", "orders", RECORDS)
    produce(second, "payments", sent["payments"])
    consume_and_commit(second, "office", "payments", RECORDS)
    properties = write_properties(tmp_path / "mirror.properties", settings(first, second))
    mirror = Process(java("org.apache.kafka.connect.mirror.MirrorMaker", properties), tmp_path / "mirror.log")
    with mirror, Reader(second, "a.orders") as orders:
        orders.check = mirror.check
        orders.read_until(lambda records: len(records["a.orders"]) >= RECORDS, "the first orders at b")
        end = orders.records["a.orders"][-1].offset + 1
        wait_for_translation(second, "shop", "a.orders", end)
        with Reader(second, "a.orders", isolation="read_uncommitted") as early:
            early.read_to_end()
            produce(first, "orders", sent["orders"][RECORDS:])
            early.check = mirror.check
            early.read_more("a.orders", "orders in an open transaction")
        mirror.kill()
        assert len(orders.read_to_end()["a.orders"]) < len(sent["orders"])
        mirror.start()
        orders.read_until(lambda records: len(records["a.orders"]) >= len(sent["orders"]), "all orders at b")
        with Reader(first, "b.payments") as payments:
            payments.read_until(lambda records: len(records["b.payments"]) >= RECORDS, "all payments at a")
            found = payments.read_to_end()["b.payments"]
        assert [(record.key, record.value) for record in found] == sent["payments"]
        wait_for_translation(first, "office", "b.payments", found[-1].offset + 1)
        found = orders.read_to_end()["a.orders"]
        assert [(record.key, record.value) for record in found] == sent["orders"]
        # What the group has not read at a, it reads at b.
        rest = [(record.key, record.value) for record in found if record.offset >= end]
        assert rest == sent["orders"][RECORDS:]
        for bootstrap, source, more in ((first, "b", ["mm2-offset-syncs.b.internal"]), (second, "a", [])):
            topics = ("heartbeats", f"{source}.heartbeats", *more)
            with Reader(bootstrap, *topics) as internal:
                internal.read_until(lambda records: all(records.values()), f"records in {topics}")
        for bootstrap, source in ((first, "b"), (second, "a")):
            with Reader(bootstrap, f"{source}.checkpoints.internal") as checkpoints:
                checkpoints.read_until(lambda records: all(records.values()), f"checkpoints of {source}")
        mirror.stop()
    proofs.count("records that MirrorMaker 2 copied exactly once", len(sent["orders"]) + len(sent["payments"]))
