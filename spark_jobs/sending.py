"""Records sent to topics as they were, each once: with their partition, timestamp, headers, null keys and null values.

Spark's sink cannot keep timestamps, and repeats records. Here each task has a producer of librdkafka, and the position
behind what was sent is committed with the records:

    fence former producers of the lane -> read its positions -> skip the records below
    begin -> send records -> commit positions of the group -> commit            (a transaction; repeated)

A lane is what one producer sends: a partition, or everything where records of several partitions keep their order among
each other. Its transactional id is stable, so that a task that runs again, or a job that was killed and restarted,
aborts what the former one left open, and begins behind what it committed. Records are thus in the topic once for
read_committed consumers; others may also see those of aborted transactions.

The positions are offsets of the source, committed for the target's partitions to a group, which has no members and is
named as the sender's id.

A record with the timestamp 0, the first moment of 1970, gets 1: librdkafka takes 0 for none.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.errors import JobError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

COLUMNS = ("topic", "partition", "offset", "time", "release", "key", "value", "headers")
SENT = "topic string, partition int, source long, target long, records long"
TIMEOUT_S = 60.0
TRANSACTION_BYTES = 16 * 1024 * 1024
TRANSACTION_S = 5.0
# A pause ends the transaction first: consumers get its records, and the broker does not abort it.
LONGEST_PAUSE_S = 0.5
RETRY_S = 0.2
REPORT_S = 1.0
CLIENT = {
    "message.max.bytes": 100_000_000,
    "queue.buffering.max.kbytes": 65_536,
    "linger.ms": 5,
    "transaction.timeout.ms": 120_000,
    "log_level": 0,
}


class AtRate(NamedTuple):
    """So many records in a second."""

    rate: float

    def due_s(self, number: int, _release_ms: int, _first_ms: int) -> float:
        """Return when a record is due, in seconds since the first: its number, and release times in ms."""
        return number / self.rate


class AtPace(NamedTuple):
    """The pace of the records' own times, multiplied."""

    factor: float

    def due_s(self, _number: int, release_ms: int, first_ms: int) -> float:
        """Return when a record is due, in seconds since the first: its number, and release times in ms."""
        return (release_ms - first_ms) / 1000 / self.factor


@dataclass(frozen=True)
class TransactionalSender:
    """What tasks need to send; `id` names the group of the positions and begins the transactional ids.

    Args:
        id: The sender's id, the same in every start.
        connection: librdkafka's options of the connection.
        producer: Further options of the producers.
        records: Records in a transaction, at most.
        pace: When records are due; with it, one lane has all partitions.
        now: Whether records get the time at which they are sent.
        origins: The id of the topic that is read, by the topic that is written, where a change of it is refused.

    """

    id: str
    connection: Mapping[str, str]
    producer: Mapping[str, str]
    records: int
    pace: AtRate | AtPace | None = None
    now: bool = False
    origins: Mapping[str, str] = field(default_factory=dict)

    def lane(self, topic: str, partition: int) -> str:
        """Return the lane of a partition."""
        return "all" if self.pace is not None else f"{topic}-{partition}"


class Outgoing(NamedTuple):
    """A record to send, with the columns COLUMNS: `offset` is the source's, `time` and `release` are in ms.

    `release` is when the record is due at the original pace: the largest time of the partition up to it. Without a
    `time` a record gets that at which it is sent.
    """

    topic: str
    partition: int
    offset: int
    time: int | None
    release: int
    key: bytes | None
    value: bytes | None
    headers: list[dict[str, Any]] | None

    @property
    def bytes(self) -> int:
        """About how much it has."""
        return len(self.key or b"") + len(self.value or b"") + 100


class OffsetRun(NamedTuple):
    """Records of a partition that follow each other in the source and the target, with the offsets of the first."""

    topic: str
    partition: int
    source: int
    target: int
    records: int

    def followed_by(self, source: int, target: int) -> bool:
        """Return whether a record with these offsets comes next."""
        return (source, target) == (self.source + self.records, self.target + self.records)


def to_send(records: DataFrame, targets: Mapping[str, str], *, paced: bool, ordered: bool) -> DataFrame:
    """Return records with COLUMNS, in the order in which they are sent.

    Args:
        records: The records.
        targets: The topic to write, by the topic that was read.
        paced: Whether one task sends all of them.
        ordered: Whether each partition is in one task and in order already, as Spark's Kafka source has it.

    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    names = f.create_map(*(f.lit(name) for pair in targets.items() for name in pair))
    time = f.unix_millis("timestamp")
    chosen = records.select(
        names[f.col("topic")].alias("topic"), "partition", "offset", time.alias("time"), "key", "value", "headers"
    )
    if not paced:
        made = chosen.withColumn("release", f.col("time"))
        if ordered:
            return made
        return made.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    so_far = Window.partitionBy("topic", "partition").orderBy("offset")
    released = chosen.withColumn("release", f.max("time").over(so_far))
    return released.repartition(1).sortWithinPartitions("release", "topic", "partition", "offset")


def send(records: DataFrame, sender: TransactionalSender) -> list[OffsetRun]:
    """Send records with COLUMNS, each partition in the order of its rows in one task; return what was sent.

    After the failure of a task the runs are without those that its first try has committed.
    """
    sent = records.select(*COLUMNS).mapInArrow(partial(_send_batches, sender=sender), SENT)
    return [OffsetRun(*row) for row in sent.collect()]


def _send_batches(batches: Iterable[pa.RecordBatch], sender: TransactionalSender) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    runs = send_all(outgoing(batches), sender)
    columns = [list(column) for column in zip(*runs, strict=True)] or [[]] * len(OffsetRun._fields)
    types = (pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.int64())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, names=list(OffsetRun._fields))


def outgoing(batches: Iterable[pa.RecordBatch]) -> Iterator[Outgoing]:
    """Yield the records of batches."""
    for batch in batches:
        yield from map(Outgoing._make, zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True))


def send_all(records: Iterable[Outgoing], sender: TransactionalSender) -> list[OffsetRun]:
    """Send records; raise JobError if the brokers refuse one or do not answer."""
    try:
        from confluent_kafka import KafkaException
    except ModuleNotFoundError:
        raise JobError("confluent-kafka is not installed where tasks run: pip install 'barnabas[spark]'") from None
    runs: list[OffsetRun] = []
    lane: Lane | None = None
    try:
        for record in records:
            name = sender.lane(record.topic, record.partition)
            if lane is None or lane.name != name:
                if lane is not None:
                    lane.commit()
                    lane.close()
                    lane = None
                lane = Lane(name, sender, runs.append)
            lane.send(record)
        if lane is not None:
            lane.commit()
    except KafkaException as error:
        raise JobError(_sentence(error.args[0], sender.connection["bootstrap.servers"])) from None
    finally:
        if lane is not None:
            lane.close()
    return runs


def _sentence(error: Any, brokers: str) -> str:
    from confluent_kafka import KafkaError

    if error.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
        return f"no broker answers at {brokers}; start one, or correct the address, then start the job again"
    return f"the brokers at {brokers} refuse to write: {error.str()}"


class Lane:
    """A transactional producer, and the positions behind what it has committed."""

    def __init__(self, name: str, sender: TransactionalSender, sent: Callable[[OffsetRun], None]) -> None:
        from confluent_kafka import Consumer, Producer

        self.name = name
        self._sender = sender
        self._sent = sent
        group = {"group.id": sender.id, "isolation.level": "read_committed", "log_level": 0}
        self._positions_of = Consumer({**sender.connection, **group})
        own = {"transactional.id": f"{sender.id}-{name}"}
        self._producer = Producer({**CLIENT, **sender.connection, **sender.producer, **own})
        self._producer.init_transactions(TIMEOUT_S)
        self._positions: dict[tuple[str, int], int] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._bytes = 0
        self._records = 0
        self._begun_s = 0.0
        # Source offsets of the records that are not acknowledged yet; librdkafka reports in order of a partition.
        self._waiting: dict[tuple[str, int], deque[int]] = {}
        self._runs: dict[tuple[str, int], OffsetRun] = {}
        self._failure: str | None = None
        self._schedule: _Schedule | None = None if sender.pace is None else _Schedule(sender.pace)

    def send(self, record: Outgoing) -> None:
        """Send a record when it is due, unless it is below its partition's position."""
        where = record.topic, record.partition
        if record.offset < self._position(where):
            return
        if self._schedule is not None:
            self._wait(self._schedule.delay_s(record.release))
        if not self._ends:
            self._producer.begin_transaction()
            self._begun_s = time.monotonic()
        self._ends[where] = record.offset + 1
        self._waiting.setdefault(where, deque()).append(record.offset)
        self._produce(record)
        self._records += 1
        self._bytes += record.bytes
        age_s = time.monotonic() - self._begun_s
        if self._records >= self._sender.records or self._bytes >= TRANSACTION_BYTES or age_s >= TRANSACTION_S:
            self.commit()

    def commit(self) -> None:
        """Commit what was sent since the last time, with the positions behind it."""
        from confluent_kafka import TopicPartition

        if not self._ends:
            return
        self._producer.flush(TIMEOUT_S)
        self._check()
        positions = [
            TopicPartition(topic, partition, end, self._sender.origins.get(topic, ""))
            for (topic, partition), end in self._ends.items()
        ]
        self._producer.send_offsets_to_transaction(positions, self._positions_of.consumer_group_metadata(), TIMEOUT_S)
        self._producer.commit_transaction(TIMEOUT_S)
        for run in self._runs.values():
            self._sent(run)
        self._runs.clear()
        self._ends.clear()
        self._bytes = self._records = 0

    def close(self) -> None:
        """Abort what is not committed, and close the connections."""
        from confluent_kafka import KafkaException

        if self._ends:
            with suppress(KafkaException):
                self._producer.abort_transaction(TIMEOUT_S)
        self._positions_of.close()

    def _produce(self, record: Outgoing) -> None:
        from confluent_kafka import KafkaException

        headers = [(header["key"], header["value"]) for header in record.headers or ()]
        now = self._sender.now or record.time is None
        timestamp: dict[str, Any] = {} if now else {"timestamp": record.time or 1}
        while True:
            try:
                self._producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    record.partition,
                    headers=headers,
                    on_delivery=self._delivered,
                    **timestamp,
                )
            except BufferError:
                self._producer.poll(0.1)
                self._check()
            except KafkaException:
                # A refused record aborts the transaction; its report says why, this exception does not.
                self._producer.poll(REPORT_S)
                self._check()
                raise
            else:
                self._producer.poll(0)
                return

    def _delivered(self, error: Any, message: Any) -> None:
        where = message.topic(), message.partition()
        source = self._waiting[where].popleft()
        if error is not None:
            self._failure = self._failure or f"{where[0]}-{where[1]}: the record of offset {source}: {error.str()}"
            return
        run = self._runs.get(where)
        if run is not None and run.followed_by(source, message.offset()):
            self._runs[where] = run._replace(records=run.records + 1)
            return
        if run is not None:
            self._sent(run)
        self._runs[where] = OffsetRun(*where, source, message.offset(), 1)

    def _check(self) -> None:
        if self._failure is not None:
            raise JobError(self._failure)

    def _position(self, where: tuple[str, int]) -> int:
        from confluent_kafka import TopicPartition

        if where not in self._positions:
            found = self._committed(TopicPartition(*where))
            origin = self._sender.origins.get(where[0])
            if origin is not None and found.metadata not in (None, "", origin):
                raise JobError(
                    f"the topic that {where[0]} is copied from was deleted and created again: delete {where[0]} too, "
                    "or choose another --to; and begin with another --checkpoint"
                )
            self._positions[where] = max(0, found.offset)
        return self._positions[where]

    def _committed(self, partition: Any) -> Any:
        """Return what is committed for a partition; librdkafka does not look for another coordinator itself."""
        from confluent_kafka import KafkaError, KafkaException

        moving = (
            KafkaError.NOT_COORDINATOR,
            KafkaError.COORDINATOR_NOT_AVAILABLE,
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        )
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                [found] = self._positions_of.committed([partition], TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].code() not in moving or time.monotonic() > deadline_s:
                    raise
                time.sleep(RETRY_S)
            else:
                return found

    def _wait(self, delay_s: float) -> None:
        if delay_s > LONGEST_PAUSE_S:
            self.commit()
        if delay_s > 0:
            time.sleep(delay_s)


class _Schedule:
    """When the next record is due, counted from the first one that this lane sends."""

    def __init__(self, pace: AtRate | AtPace) -> None:
        self._pace = pace
        self._number = 0
        self._first_ms = 0
        self._begun_s = 0.0

    def delay_s(self, release_ms: int) -> float:
        """Return how long to wait for a record, negative if it is due already."""
        if self._number == 0:
            self._first_ms, self._begun_s = release_ms, time.monotonic()
        due_s = self._pace.due_s(self._number, release_ms, self._first_ms)
        self._number += 1
        return self._begun_s + due_s - time.monotonic()
