"""The transactional producers of all clients: commit, abort, fencing, time-out, offsets in transactions.

One scenario is run through each client, on one broker and on three. What it must leave behind is read by librdkafka at
either isolation level: a record that is aborted is stored, and only read_committed consumers skip it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.broker_process import BrokerProcess
from tests.chaos.cluster import SETTINGS, Cluster, NoGates, wait_until
from tests.clients.clients import CLIENTS, Client
from tests.clients.steps import STEP_TIMEOUT_S, StepError, Steps
from tests.typed import present

PARTITIONS = 2
SHORT_TIMEOUT_MS = 1_500
SWEEP = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}
ONE = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000, **SWEEP}
# The clients' texts for the errors of a producer that was replaced, or whose transaction the coordinator aborted.
# Sarama has none for PRODUCER_FENCED (90).
FENCED = re.compile(r"fenc|epoch|Error code = 90|invalid_?txn_?state", re.IGNORECASE)


class Reader:
    """Reads what transactions left in a topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self.topic = bootstrap, topic
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create_topics(self, *topics: str) -> None:
        brokers = len(self._admin.list_topics(timeout=30).brokers)
        wanted = [NewTopic(topic, PARTITIONS, brokers) for topic in topics]
        for created in self._admin.create_topics(wanted).values():
            created.result(30)

    def ends(self, level: IsolationLevel) -> list[int]:
        """Return the end of each partition: the high watermark, or the last stable offset."""
        asked = {TopicPartition(self.topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}  # type: ignore[no-untyped-call]  # of confluent-kafka
        return [future.result(30).offset for future in self._admin.list_offsets(asked, isolation_level=level).values()]

    @property
    def is_open(self) -> bool:
        """Return whether a transaction is open."""
        return self.ends(IsolationLevel.READ_COMMITTED) != self.ends(IsolationLevel.READ_UNCOMMITTED)

    def wait_until_closed(self) -> None:
        wait_until(lambda: not self.is_open, "no transaction open", STEP_TIMEOUT_S)

    def values(self, level: str) -> list[str]:
        """Return the values of all partitions at an isolation level, sorted."""
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "reads", "isolation.level": level, "log_level": 0}
        consumer = Consumer(settings | {"enable.partition.eof": True, "enable.auto.commit": False})
        consumer.assign([TopicPartition(self.topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
        values, unread = [], set(range(PARTITIONS))
        deadline = time.monotonic() + STEP_TIMEOUT_S
        while unread:
            assert time.monotonic() < deadline
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    values.append(present(message.value()).decode())
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(present(message.partition()))
        consumer.close()
        return sorted(values)

    def committed_offset(self, group: str, topic: str) -> int:
        """Return the group's offset of partition 0, negative if it has none."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group, "log_level": 0})
        try:
            return consumer.committed([TopicPartition(topic, 0)], 30)[0].offset
        finally:
            consumer.close()


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), ONE) as running:
        yield running.bootstrap
    running.check_log()


@pytest.fixture(scope="module")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Cluster(tmp_path_factory.mktemp("cluster"), NoGates(), SETTINGS | SWEEP) as cluster:
        cluster.wait_until_whole()
        yield cluster.bootstrap.partition(",")[0]
        complaints = [line for node in cluster.nodes.values() for line in node.complaints()]
    assert complaints == []


@pytest.mark.parametrize("brokers", ["one_broker", "three_brokers"])
@pytest.mark.parametrize("client", [client for client in CLIENTS if client.has_transactions], ids=str)
def test_transactions_commit_abort_fence_and_time_out(
    client: Client, brokers: str, request: pytest.FixtureRequest, topic: str, tmp_path: Path
) -> None:
    scenario(client, request.getfixturevalue(brokers), topic, tmp_path)


def scenario(client: Client, bootstrap: str, topic: str, folder: Path) -> None:
    """Run the scenario, and check after each part what readers get."""
    given, reader = f"{topic}-given", Reader(bootstrap, topic)
    reader.create_topics(topic, given)
    produce(bootstrap, given, ["1", "2", "3"])

    def start(transactional_id: str, name: str, **timeout_ms: int) -> Steps:
        return Steps(client, bootstrap, transactional_id, given, folder / f"{name}.log", **timeout_ms)

    with ExitStack() as stack:
        first = stack.enter_context(start(topic, "first"))
        commit_and_abort(first, reader)
        abort_offsets(first, reader, given)
        second = stack.enter_context(start(topic, "second"))
        second_fences_first(first, second, reader)
        first.end()
        commit_offsets(second, reader, given)
        with start(f"{topic}-late", "late", timeout_ms=SHORT_TIMEOUT_MS) as late:
            time_out(late, reader)
        in_transaction(second, "commit", ("send", topic, 0, "last"))

    committed = ["1", "2", "3", "first-0", "first-1", "last"]
    assert reader.values("read_committed") == committed
    assert reader.values("read_uncommitted") == sorted([*committed, "1", "2", "3", "aborted", "late", "zombie"])


def in_transaction(producer: Steps, end: str, *steps: tuple[str | int, ...]) -> None:
    producer.run("begin")
    for step in steps:
        producer.run(*step)
    producer.run(end)


def commit_and_abort(first: Steps, reader: Reader) -> None:
    first.run("init")
    first.run("begin")
    for partition in range(PARTITIONS):
        first.run("send", reader.topic, partition, f"first-{partition}")
    assert reader.is_open
    assert reader.values("read_committed") == []
    first.run("commit")
    reader.wait_until_closed()
    assert reader.values("read_committed") == ["first-0", "first-1"]
    in_transaction(first, "abort", ("send", reader.topic, 0, "aborted"))
    reader.wait_until_closed()
    assert reader.values("read_committed") == ["first-0", "first-1"]


def abort_offsets(first: Steps, reader: Reader, given: str) -> None:
    first.run("begin")
    assert first.run("pipe", 3, reader.topic) == ["1", "2", "3"]
    first.run("abort")
    assert reader.committed_offset(f"{reader.topic}-group", given) < 0


def second_fences_first(first: Steps, second: Steps, reader: Reader) -> None:
    """The same transactional id in another process: its initialization aborts the transaction of the first."""
    first.run("begin")
    first.run("send", reader.topic, 0, "zombie")
    second.run("init")
    reader.wait_until_closed()
    assert_fenced(lambda: first.run("commit"))


def commit_offsets(second: Steps, reader: Reader, given: str) -> None:
    """The records whose offsets were aborted come again."""
    second.run("begin")
    assert second.run("pipe", 3, reader.topic) == ["1", "2", "3"]
    second.run("commit")
    reader.wait_until_closed()
    assert reader.committed_offset(f"{reader.topic}-group", given) == 3


def time_out(late: Steps, reader: Reader) -> None:
    """The coordinator aborts a transaction that is open for longer than `transaction.timeout.ms`."""
    late.run("init")
    late.run("begin")
    late.run("send", reader.topic, 1, "late")
    reader.wait_until_closed()
    assert_fenced(lambda: late.run("commit"))


def assert_fenced(step: Callable[[], object]) -> None:
    with pytest.raises(StepError, match=FENCED):
        step()


def produce(bootstrap: str, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
