"""Answers to repeated batches of idempotent producers, beside Apache Kafka's: while running, and after each restart.

Both brokers are sent the same batches, which are repeated while the brokers run, after a kill, after a clean shutdown,
and after a move of the logs to another directory. A batch that a broker no longer knows is answered with
OUT_OF_ORDER_SEQUENCE_NUMBER, never DUPLICATE_SEQUENCE_NUMBER. The brokers differ after a restart, from which on Apache
Kafka knows only the last batch of each producer: that is what its snapshots have, and it takes one in a recovery too.
"""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from storage.log.producer_state import WINDOW
from tests.broker_process import BrokerProcess
from tests.oracles.kafka_server import KafkaServer
from tests.oracles.telling import wait_for_leaders
from tests.raw_client import RawClient

# The number of batches by topic, each of which has a producer of its own.
TOPICS = {"one": 1, "full": WINDOW, "longer": WINDOW + 2}
RECORDS = 2  # of each batch
TIMEOUT_S = 60
NOW_MS = int(time.time() * 1000)


class Answer(NamedTuple):
    """The answer to a batch."""

    error: ErrorCode
    base_offset: int


Answers = dict[str, list[Answer]]
"""The answers to all batches of each topic, in their order."""


class Repeated(NamedTuple):
    """A broker's answers when all batches are sent again."""

    running: Answers
    killed: Answers
    restarted: Answers
    moved: Answers


OUT_OF_ORDER = Answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


def remembering(window: int) -> Answers:
    """Return the answers of a broker that knows the last `window` batches of each producer."""
    return {
        topic: [
            Answer(ErrorCode.NONE, RECORDS * number) if number >= batches - window else OUT_OF_ORDER
            for number in range(batches)
        ]
        for topic, batches in TOPICS.items()
    }


def send_all(bootstrap: str) -> Answers:
    client = RawClient(bootstrap)
    try:
        return {
            topic: [send(client, topic, producer_id, number) for number in range(batches)]
            for producer_id, (topic, batches) in zip(count(700), TOPICS.items(), strict=False)
        }
    finally:
        client.close()


def send(client: RawClient, topic: str, producer_id: int, number: int) -> Answer:
    records = build_batch(
        [(None, b"value")] * RECORDS,
        timestamp_ms=NOW_MS,  # Apache Kafka does not load expired producers
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=RECORDS * number,
    )
    partition = ProduceRequest.Topic.Partition(index=0, records=records)
    data = [ProduceRequest.Topic(name=topic, partition_data=[partition])]
    response = client.call(ApiKey.PRODUCE, 12, acks=-1, timeout_ms=10_000, topic_data=data)
    [[answer]] = [found.partition_responses for found in response.responses]
    return Answer(ErrorCode(answer.error_code), answer.base_offset)


def create_topics(bootstrap: str) -> None:
    topics = [
        CreateTopicsRequest.Topic(name=topic, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for topic in TOPICS
    ]
    client = RawClient(bootstrap)
    client.call(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout_ms=30_000)
    client.close()
    wait_for_leaders(bootstrap, TOPICS)


def move(bootstrap: str, directory: Path) -> None:
    """Move all logs to a directory, and return once they are there; those that are there already stay."""
    client = RawClient(bootstrap)
    Dir = AlterReplicaLogDirsRequest.Dir  # noqa: N806
    wanted = Dir(path=str(directory), topics=[Dir.Topic(name=topic, partitions=[0]) for topic in TOPICS])
    moved = client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=[wanted])
    assert {part.error_code for topic in moved.results for part in topic.partitions} == {ErrorCode.NONE}
    deadline = time.monotonic() + TIMEOUT_S
    while current(client, directory) != TOPICS.keys():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    client.close()


def current(client: RawClient, directory: Path) -> set[str]:
    """Return the topics whose logs are in a directory and not only on their way there."""
    results = client.call(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None).results
    [found] = [result.topics for result in results if result.log_dir == str(directory)]
    return {topic.name for topic in found if not topic.partitions[0].is_future_key} & TOPICS.keys()


class Kafka:
    """Apache Kafka with two directories."""

    def __init__(self, folder: Path) -> None:
        self.directories = [folder / "a", folder / "b"]
        self._server = KafkaServer(folder, {"log.dirs": f"{folder}/a,{folder}/b"})
        self._server.wait()

    @property
    def bootstrap(self) -> str:
        return self._server.bootstrap

    def restart(self, *, kill: bool) -> None:
        if kill:
            self._server.stop()
        else:
            self._server.close()
        self._server.start()
        self._server.wait()
        wait_for_leaders(self.bootstrap, TOPICS)

    def stop(self) -> None:
        self._server.stop()


class Ours:
    """Barnabas with two directories."""

    def __init__(self, folder: Path) -> None:
        self.directories = [folder / "a", folder / "b"]
        self._broker = BrokerProcess(folder, {"node.id": 1, "log.dirs": f"{folder}/a,{folder}/b"}).start()

    @property
    def bootstrap(self) -> str:
        return self._broker.bootstrap

    def restart(self, *, kill: bool) -> None:
        if kill:
            self._broker.kill()
        else:
            assert self._broker.stop() == 0
        self._broker.start()
        wait_for_leaders(self.bootstrap, TOPICS)

    def stop(self) -> None:
        assert self._broker.stop() == 0
        self._broker.check_log()


def repeat(broker: Kafka | Ours) -> Repeated:
    """Send all batches, and send them again in each state."""
    create_topics(broker.bootstrap)
    assert send_all(broker.bootstrap) == remembering(max(TOPICS.values()))
    running = send_all(broker.bootstrap)
    broker.restart(kill=True)
    killed = send_all(broker.bootstrap)
    broker.restart(kill=False)
    restarted = send_all(broker.bootstrap)
    for directory in broker.directories:
        move(broker.bootstrap, directory)
    return Repeated(running, killed, restarted, send_all(broker.bootstrap))


class Both(NamedTuple):
    """What both brokers answered."""

    ours: Repeated
    kafkas: Repeated


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp("both")
    kafka = Kafka(folder / "kafka")
    try:
        kafkas = repeat(kafka)
    finally:
        kafka.stop()
    ours = Ours(folder / "ours")
    try:
        return Both(repeat(ours), kafkas)
    finally:
        ours.stop()


@pytest.mark.parametrize("state", ["running", "moved"])
def test_rule_9_last_five_batches_get_their_offsets_as_from_kafka(both: Both, state: str) -> None:
    ours, kafkas = (getattr(answered, state) for answered in both)
    assert ours == kafkas == remembering(WINDOW)


@pytest.mark.parametrize("state", ["killed", "restarted"])
def test_rule_10_five_batches_are_known_after_a_restart_of_which_kafka_knows_the_last(both: Both, state: str) -> None:
    ours, kafkas = (getattr(answered, state) for answered in both)
    assert ours == remembering(WINDOW)
    assert kafkas == remembering(1)
