"""A data directory with transactions open, prepared and complete, and what a broker makes of it.

    complete   a committed and an aborted transaction, with offsets of the group `complete`
    open       left open, with pending offsets of the group `open`
    prepared   the coordinator has logged the decision to commit, and no marker is written yet; with pending offsets of
               the group `prepared`

The prepared transaction is the last one: its markers and the record of its completion, which are the last batches of
their logs, are cut off the files of the stopped broker, as if its machine had died before it wrote them. The broker is
stopped and not killed: after a kill, Apache Kafka 4.3.1 was seen to complete the prepared transaction without its
markers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.record_batch import iter_batches, iter_records
from protocol.records.transactions import decode_transaction_key, decode_transaction_value
from tests.oracles.telling import Reported
from tests.raw_client import RawClient
from tests.typed import present

COMPLETE, OPEN, PREPARED = TOPICS = ("complete", "open", "prepared")
ABORTED = "aborted"
GIVEN = "given"
"""The topic whose offsets the transactions commit; it is empty."""
STATE, OFFSETS = "__transaction_state", "__consumer_offsets"
ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT = 1, 2, 4
SETTINGS = {
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    # The open transaction stays open: its producer's time-out is an hour.
    "transaction.max.timeout.ms": 3_600_000,
    "log.initial.task.delay.ms": 3_600_000,
}
TIMEOUT_S = 60
# The offsets that the transactions commit, and those of `go_on`.
OFFSET, LATER_OFFSET = 5, 9


class State(NamedTuple):
    """The last record of a transactional id, without its times."""

    producer_id: int
    epoch: int
    status: int
    timeout_ms: int
    partitions: dict[str, list[int]]


class Seen(NamedTuple):
    """All that a broker makes of a directory."""

    offsets: dict[str, tuple[int, int]]
    """By group: the error for OffsetFetch with require_stable, and the committed offset."""
    stable: dict[str, int]
    """By topic: the last stable offset less the high watermark."""
    aborted: dict[str, list[tuple[int, int]]]
    """By topic: producer id and first offset of each aborted transaction."""
    producers: dict[str, dict[int, tuple[int, ...]]]
    """By topic and producer id: epoch, last sequence, start offset of the transaction. Leader epochs may differ."""
    everything: dict[str, list[bytes | None]]
    committed: dict[str, list[bytes | None]]


def create_topics(bootstrap: str) -> None:
    """Create all topics, the internal ones too."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for created in admin.create_topics([NewTopic(topic, 1, 1) for topic in (*TOPICS, GIVEN)]).values():
        created.result(TIMEOUT_S)
    producer(bootstrap, "first")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "first", "log_level": 0})

    def is_loaded() -> bool:
        try:
            consumer.committed([TopicPartition(GIVEN, 0)], TIMEOUT_S)
        except KafkaException:
            return False
        return True

    wait_until(is_loaded)
    consumer.close()


def producer(bootstrap: str, transactional_id: str) -> Producer:
    """Return an initialized producer."""
    made = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 3_600_000,
            "log_level": 0,
        }
    )
    made.init_transactions(TIMEOUT_S)
    return made


def write(bootstrap: str) -> list[Producer]:
    """Run the transactions, and return their producers, which must live until the broker is stopped."""
    producers = {name: producer(bootstrap, name) for name in (COMPLETE, ABORTED, OPEN, PREPARED)}
    for number in range(3):
        _send(bootstrap, producers[COMPLETE], COMPLETE, f"committed {number}", OFFSET)
        producers[COMPLETE].commit_transaction(TIMEOUT_S)
        _send(bootstrap, producers[ABORTED], COMPLETE, f"aborted {number}", LATER_OFFSET)
        producers[ABORTED].abort_transaction(TIMEOUT_S)
    _send(bootstrap, producers[OPEN], OPEN, "open", OFFSET)
    _send(bootstrap, producers[PREPARED], PREPARED, "prepared", OFFSET)
    producers[PREPARED].commit_transaction(TIMEOUT_S)
    return [*producers.values()]


def _send(bootstrap: str, sender: Producer, topic: str, value: str, offset: int) -> None:
    """Begin a transaction with records in a topic, and an offset of the group of the same name."""
    sender.begin_transaction()
    for number in range(2):
        sender.produce(topic, f"{value}, {number}", partition=0)
    sender.flush(TIMEOUT_S)
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "log_level": 0})
    sender.send_offsets_to_transaction([TopicPartition(GIVEN, 0, offset)], member.consumer_group_metadata(), TIMEOUT_S)
    member.close()


def cut(data_dir: Path) -> None:
    """Cut the last batches off a stopped broker's logs: the prepared transaction's markers and completion.

    The logs are to be recovered like those of a machine that died.
    """
    (data_dir / ".kafka_cleanshutdown").unlink()
    (data_dir / "recovery-point-offset-checkpoint").unlink()
    last = _batches(data_dir, STATE)[-1]
    [record] = iter_records(last)
    assert present(decode_transaction_key(present(record.key))).transactional_id == PREPARED
    assert decode_transaction_value(present(record.value)).transaction_status == COMPLETE_COMMIT
    for topic in (STATE, OFFSETS, PREPARED):
        batch = _batches(data_dir, topic)[-1]
        [(_, header)] = iter_batches(batch)
        assert header.is_control == (topic != STATE)
        log = _log(data_dir, topic)
        content = log.read_bytes()
        assert content.endswith(batch)
        log.write_bytes(content[: -len(batch)])


def states(data_dir: Path) -> dict[str, State]:
    """Return the last record of each transactional id in the log."""
    found = {}
    for batch in _batches(data_dir, STATE):
        [(_, header)] = iter_batches(batch)
        if header.is_control:
            continue
        for record in iter_records(batch):
            name = present(decode_transaction_key(present(record.key))).transactional_id
            value = decode_transaction_value(present(record.value))
            parts = {part.topic: part.partition_ids for part in value.transaction_partitions or ()}
            found[name] = State(
                value.producer_id, value.producer_epoch, value.transaction_status, value.transaction_timeout_ms, parts
            )
    return found


def _batches(data_dir: Path, topic: str) -> list[bytes]:
    content = _log(data_dir, topic).read_bytes()
    return [content[at : at + header.size_bytes] for at, header in iter_batches(content)]


def _log(data_dir: Path, topic: str) -> Path:
    [log] = (data_dir / f"{topic}-0").glob("*.log")
    return log


def offset_of(bootstrap: str, group: str) -> tuple[int, int]:
    """Return the error of a group's offset at require_stable, and the offset; retry while the group is loaded."""
    asked = OffsetFetchRequest.Topic(name=GIVEN, partition_indexes=[0])
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        client = RawClient(bootstrap)
        answer = client.call(ApiKey.OFFSET_FETCH, 7, group_id=group, topics=[asked], require_stable=True)
        client.close()
        if not answer.error_code:
            [topic] = answer.topics
            [partition] = topic.partitions
            return partition.error_code, partition.committed_offset
        assert time.monotonic() < deadline, answer.error_code
        time.sleep(0.1)


def seen(bootstrap: str, reported: dict[str, Reported]) -> Seen:
    """Return all that a broker makes of a directory, given its responses about the topics."""
    return Seen(
        {group: offset_of(bootstrap, group) for group in TOPICS},
        {topic: one.last_stable_offset - one.high_watermark for topic, one in reported.items()},
        {
            topic: sorted({aborted for _, found in one.aborted.values() for aborted in found})
            for topic, one in reported.items()
        },
        {
            topic: {id_: (epoch, last, start) for id_, (epoch, last, _, _, start) in one.producers.items()}
            for topic, one in reported.items()
        },
        {topic: _values(bootstrap, topic, "read_uncommitted") for topic in TOPICS},
        {topic: _values(bootstrap, topic, "read_committed") for topic in TOPICS},
    )


def _values(bootstrap: str, topic: str, level: str) -> list[bytes | None]:
    """Return the values that a consumer reads, up to the end for its isolation level."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reads", "isolation.level": level, "log_level": 0}
    consumer = Consumer(settings | {"enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values: list[bytes | None] = []
    while message := consumer.poll(TIMEOUT_S):
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            consumer.close()
            return values
        values.append(message.value())
    raise TimeoutError("the end of the partition was not read")


def go_on(bootstrap: str) -> None:
    """Continue: the open transaction is aborted by its producer's successor, and each id commits once more."""
    for name in (OPEN, COMPLETE, PREPARED):
        successor = producer(bootstrap, name)
        _send(bootstrap, successor, name, f"{name} again", LATER_OFFSET)
        successor.commit_transaction(TIMEOUT_S)
    wait_until(lambda: all(offset_of(bootstrap, name) == (ErrorCode.NONE, LATER_OFFSET) for name in TOPICS))


def wait_until(condition: Callable[[], bool]) -> None:
    """Return once the condition holds."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the broker does not do what this waits for")
        time.sleep(0.1)
