"""Pipelines that read, transform and write in transactions, while their coordinators are killed: exactly once.

Each fault strikes in the middle of a transaction: before its offsets are sent, while they are pending, or while it
aborts. A run of a client that gives up is followed by another, from the offset that the group has committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker.coordinator.runtime.coordinator_runtime import partition_for
from tests.broker_process import BrokerProcess
from tests.chaos.cluster import SETTINGS, Cluster, NoGates, wait_until
from tests.chaos.pipelines import PIPELINES, Pipeline
from tests.typed import present

RECORDS = 60
SOURCE, SINK, GROUP = "source", "sink", "pipeline"
TOPICS = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
}
TIMEOUT_S = 120.0

Fault = Callable[[], object]


def prepare(bootstrap: str, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for created in admin.create_topics([NewTopic(name, 1, replicas) for name in (SOURCE, SINK)]).values():
        created.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(SOURCE, str(number).encode(), partition=0)
    assert producer.flush(30) == 0


def written(bootstrap: str) -> list[int]:
    """Return what a read_committed consumer gets from the sink, in order."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reads", "isolation.level": "read_committed"}
    consumer = Consumer(settings | {"log_level": 0, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(SINK, 0, OFFSET_BEGINNING)])
    values: list[int] = []
    ended = False

    def at_end() -> bool:
        nonlocal ended
        for message in consumer.consume(100, 0.2):
            error = message.error()
            if error is None:
                values.append(int(present(message.value())))
            else:
                ended = ended or error.code() == KafkaError._PARTITION_EOF
        return ended

    wait_until(at_end, "the end of the sink", TIMEOUT_S)
    consumer.close()
    return values


def committed(bootstrap: str) -> int:
    """Return the group's committed offset, once it is stable."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    try:
        [found] = consumer.committed([TopicPartition(SOURCE, 0)], 60)
        return int(found.offset)
    finally:
        consumer.close()


class Work:
    """Runs of a pipeline until the source is read, with a fault in each of the first transactions."""

    def __init__(self, kind: type[Pipeline], bootstrap: str, faults: dict[str, Fault]) -> None:
        self._kind = kind
        self._bootstrap = bootstrap
        self._faults = faults
        self._struck: list[str] = []
        self._errors: list[str] = []
        self._idle = 0

    def finish(self) -> None:
        wait_until(self._run, lambda: f"the end of the source; faults: {self._struck}; {self._errors[-5:]}", TIMEOUT_S)
        assert self._struck == list(self._faults)

    def _run(self) -> bool:
        """Run until the source is read (True), an abort, or an error of the client."""
        pipeline = None
        try:
            pipeline = self._kind(self._bootstrap, GROUP, SOURCE, SINK)
            while self._transaction(pipeline):
                pass
        except (self._kind.errors, TimeoutError) as error:
            self._errors.append(repr(error))
            return False
        finally:
            if pipeline is not None:
                with suppress(self._kind.errors, TimeoutError):
                    pipeline.close()
        return committed(self._bootstrap) == RECORDS

    def _transaction(self, pipeline: Pipeline) -> bool:
        """Run one transaction; return whether the next one can follow."""
        values = pipeline.read()
        if not values:
            self._idle += 1
            return self._idle % 10 != 0
        pipeline.write(values)
        self._strike("written")
        pipeline.send_offsets()
        self._strike("offsets pending")
        if "offsets pending" in self._struck and "abort" not in self._struck:
            self._strike("abort")
            pipeline.abort()
            return False
        pipeline.commit()
        return True

    def _strike(self, stage: str) -> None:
        """Cause the fault of a stage, unless it or an earlier one is still to come or it has struck."""
        stages = list(self._faults)
        if len(self._struck) < len(stages) and stages[len(self._struck)] == stage:
            self._struck.append(stage)
            self._faults[stage]()


def check(bootstrap: str) -> None:
    assert written(bootstrap) == list(range(RECORDS))
    assert committed(bootstrap) == RECORDS


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", TOPICS) as running:
        yield running
    running.check_log()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, NoGates(), SETTINGS | TOPICS) as running:
        running.wait_until_whole()
        yield running
        complaints = [line for node in running.nodes.values() for line in node.complaints()]
    assert complaints == []


@pytest.mark.parametrize("kind", PIPELINES, ids=lambda kind: kind.name)
def test_pipeline_of_a_killed_broker_writes_each_record_once(kind: type[Pipeline], broker: BrokerProcess) -> None:
    def restart() -> None:
        broker.kill()
        broker.start()

    prepare(broker.bootstrap, 1)
    Work(kind, broker.bootstrap, {"written": restart, "offsets pending": restart, "abort": restart}).finish()
    check(broker.bootstrap)


@pytest.mark.parametrize("kind", PIPELINES, ids=lambda kind: kind.name)
def test_rule_17_pipeline_of_killed_coordinators_writes_each_record_once(
    kind: type[Pipeline], cluster: Cluster
) -> None:
    def kill_leader(topic: str) -> Fault:
        def kill() -> None:
            cluster.wait_until_whole()
            found = present(cluster.describe()).partitions
            node = cluster.nodes[found[f"{topic}-{partition_for(GROUP, 3)}"].leader]
            node.kill()
            node.start()

        return kill

    prepare(cluster.bootstrap, 3)
    faults = {
        "written": kill_leader("__transaction_state"),
        "offsets pending": kill_leader("__consumer_offsets"),
        "abort": kill_leader("__transaction_state"),
    }
    Work(kind, cluster.bootstrap, faults).finish()
    check(cluster.bootstrap)
