"""Clients that run during faults and record a history: librdkafka's, and Apache Kafka's Java clients.

Producers are idempotent with acks=all, and otherwise at their defaults. Each consumer is a member of a group, commits
by default settings, and reads committed records.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.chaos.history.events import (
    Abort,
    Acknowledged,
    Assigned,
    Committed,
    Event,
    Failed,
    Polled,
    ReadBack,
    Records,
    Send,
    Unknown,
)
from tests.chaos.history.events import Producer as ProducerEvent
from tests.chaos.history.index import topic_of
from tests.oracles.apache_kafka import kafka_tool
from tests.typed import present

TOPIC = "proof"
PARTITIONS = 6
# librdkafka logs to standard error continuously while a broker is down.
SILENT = {"log_level": 0}
BURST = 6
REST_S = 0.02
# Records that never left the producer are not stored; the outcome of any other failure is unknown.
NEVER_SENT = {KafkaError._PURGE_QUEUE, KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._UNKNOWN_PARTITION}
# Error messages of `KafkaProducer.send` for records that it no longer accepts.
CLOSED = {"Cannot perform operation after producer has been closed", "Producer closed while send in progress"}

Report = Callable[[Event], None]


def name_of(partition: int, topic: str = TOPIC) -> str:
    return f"{topic}-{partition}"


class Progress:
    """Counts acknowledged records, committed transactions, and records that groups received, and wakes waiters.

    A transaction's records count as acknowledged once it is committed. Records of other topics than `TOPIC` do not.
    """

    def __init__(self, report: Report, now_s: Callable[[], float] = time.monotonic) -> None:
        self._report = report
        self._now_s = now_s
        self._changed = threading.Condition()
        self.acknowledged: set[str] = set()
        self.acknowledged_of: Counter[str] = Counter()
        """Number of records by partition."""
        self.committed: Counter[str] = Counter()
        """Number of transactions by client."""
        self._pending: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        """Records of `TOPIC` by process and open transaction."""
        self.seen: defaultdict[str, set[str]] = defaultdict(set)
        self.ends: dict[str, int] = {}
        """The end of what was read back, by partition."""
        self.errors: Counter[str] = Counter()
        self._gaps_s: dict[str, float] = {}
        self._last_s: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        with self._changed:
            match event:
                case Send(process, partition, value, transaction) if transaction:
                    self._pending[process][transaction] += [value] if topic_of(partition) == TOPIC else []
                case Committed(process, transaction):
                    self.acknowledged.update(self._pending[process].pop(transaction, []))
                    self.committed[process.partition(".")[0]] += 1
                case Abort(process, transaction):
                    self._pending[process].pop(transaction, None)
                case Acknowledged(process, partition, value) if process not in self._pending:
                    self.acknowledged.add(value)
                    self.acknowledged_of[partition] += 1
                    now_s = self._now_s()
                    self._gaps_s[partition] = self._gap_s(partition, now_s)
                    self._last_s[partition] = now_s
                case Polled(_, group, _, records):
                    self.seen[group].update(value for _, value in records)
                case ReadBack(partition, records):
                    self.ends[partition] = records[-1][0] + 1 if records else 0
            self._report(event)
            self._changed.notify_all()

    def take_gaps_s(self) -> dict[str, float]:
        """Return each partition's longest time without an acknowledgement since the last call, up to now.

        A gap that began before the last call counts in full. Partitions without any acknowledgement are left out.
        """
        with self._changed:
            now_s = self._now_s()
            gaps_s = {partition: self._gap_s(partition, now_s) for partition in self._last_s}
            self._gaps_s.clear()
            return gaps_s

    def _gap_s(self, partition: str, now_s: float) -> float:
        return max(self._gaps_s.get(partition, 0.0), now_s - self._last_s.get(partition, now_s))

    def failed(self, client: str, error: object) -> None:
        """Record an error that an application received."""
        with self._changed:
            self.errors[f"{client}: {error}"] += 1

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until the condition holds, evaluating it after each event; return whether it does."""
        with self._changed:
            return self._changed.wait_for(condition, timeout_s)

    def unseen(self, group: str) -> set[str]:
        """Return the acknowledged records that a group has not received; for `wait_for`."""
        return self.acknowledged - self.seen[group]


def offset_of(message: Message) -> int:
    """Return the offset of an acknowledged record; -1 if librdkafka does not know it.

    When a leader changes, a batch that was appended and replicated may be answered NOT_LEADER_OR_FOLLOWER. librdkafka
    2.16 may send the batch after it to the new leader before it repeats that batch: its sequence follows, so it is
    accepted, and librdkafka reports the records of both as delivered, those of the first one without an offset
    (`rd_kafka_dr_implicit_ack`). Apache Kafka 4.3 causes the same. Such a record is acknowledged like any other, and
    the checker must find it, once and in order.
    """
    offset = message.offset()
    return -1 if offset is None or offset < 0 else offset


class LibrdkafkaProducer:
    """Sends to every partition in turn until it is stopped."""

    def __init__(self, settings: Mapping[str, str], name: str, report: Progress) -> None:
        self._name = name
        self._report = report
        self._stopping = threading.Event()
        self._producer = Producer(
            {**settings, "enable.idempotence": True, "acks": "all", **SILENT},
            error_cb=self._error,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        report(ProducerEvent(name, True))

    def start(self) -> None:
        self._thread.start()

    def finish(self, timeout_s: float) -> bool:
        """Stop sending, and return whether the outcome of every record is known in time."""
        self._stopping.set()
        self._thread.join()
        return self._producer.flush(timeout_s) == 0

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(10)

    def _error(self, error: KafkaError) -> None:
        if error.fatal():
            self._report.failed(self._name, error)

    def _run(self) -> None:
        try:
            self._send()
        except Exception as error:
            self._report.failed(self._name, repr(error))
            raise

    def _send(self) -> None:
        for number in itertools.count():
            if self._stopping.is_set():
                return
            partition = number % PARTITIONS
            value = f"{self._name}-{number}"
            self._report(Send(self._name, name_of(partition), value))
            while not self._accepted(partition, value):
                self._producer.poll(0.01)
            self._producer.poll(0)
            if number % BURST == 0:
                self._stopping.wait(REST_S)

    def _accepted(self, partition: int, value: str) -> bool:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._report(Acknowledged(self._name, name_of(partition), value, offset_of(message)))
            else:
                self._report.failed(self._name, error)
                never = error.code() in NEVER_SENT
                self._report(Failed(self._name, value) if never else Unknown(self._name, value))

        try:
            self._producer.produce(TOPIC, value, partition=partition, on_delivery=delivered)
        except BufferError:
            return False
        return True


class LibrdkafkaMember:
    """A member of a group."""

    def __init__(self, settings: Mapping[str, str], group: str, name: str, report: Progress) -> None:
        self._settings = settings
        self._group = group
        self._name = name
        self._report = report
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        settings = {**self._settings, "group.id": self._group, "auto.offset.reset": "earliest", **SILENT}
        consumer = Consumer(settings, error_cb=self._error)
        consumer.subscribe([TOPIC], on_assign=self._assigned, on_revoke=self._assigned, on_lost=self._assigned)
        while not self._stopping.is_set():
            for partition, records in by_partition(consumer.consume(500, 0.1)):
                self._report(Polled(self._name, self._group, partition, records))
        consumer.close()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._report(Assigned(self._name, self._group, [name_of(partition.partition) for partition in partitions]))

    def _error(self, error: KafkaError) -> None:
        if error.fatal():
            self._report.failed(self._name, error)


def by_partition(messages: list[Message]) -> Iterator[tuple[str, Records]]:
    """Yield the records of each partition, in order; errors are skipped, they are transient."""
    found: dict[str, Records] = {}
    for message in messages:
        if message.error() is None:
            partition = name_of(present(message.partition()), present(message.topic()))
            found.setdefault(partition, []).append((present(message.offset()), present(message.value()).decode()))
    yield from found.items()


class JavaProgram:
    """One of Apache Kafka's system-test programs, which print events as lines of JSON."""

    def __init__(self, name: str, report: Progress, class_name: str, *arguments: str) -> None:
        self._name = name
        self._report = report
        self._command = kafka_tool(class_name, *arguments)
        self._process: subprocess.Popen[str] | None = None
        self._finishing = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
        )
        self._thread.start()

    def finish(self, timeout_s: float) -> bool:
        """Stop it with SIGTERM, and return whether it ends in time."""
        assert self._process is not None
        self._finishing = True
        self._process.terminate()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._thread.join()

    def _run(self) -> None:
        assert self._process is not None
        output: IO[str] | None = self._process.stdout
        assert output is not None
        with output:
            for line in output:
                if line.startswith("{"):
                    self._take(json.loads(line))

    def _take(self, printed: dict[str, Any]) -> None:
        raise NotImplementedError


class JavaProducer(JavaProgram):
    """Apache Kafka's producer; it prints a record once its outcome is known, and chooses the partition."""

    PREFIX = "7"
    SETTINGS = "retries=2147483647\n"
    """The producer's default; the program has another."""

    def __init__(self, bootstrap: str, name: str, report: Progress, directory: Path) -> None:
        settings = directory / f"{name}.properties"
        settings.write_text(self.SETTINGS)
        options = ("--bootstrap-server", bootstrap, "--topic", TOPIC, "--acks", "-1", "--throughput", "100")
        more = ("--value-prefix", self.PREFIX, "--command-config", str(settings))
        super().__init__(name, report, "org.apache.kafka.tools.VerifiableProducer", *options, *more)
        report(ProducerEvent(name, True))

    def _take(self, printed: dict[str, Any]) -> None:
        match printed:
            case {"name": "producer_send_success", "value": value, "partition": partition, "offset": offset}:
                self._report(Send(self._name, name_of(partition), value))
                self._report(Acknowledged(self._name, name_of(partition), value, offset))
            case {"name": "producer_send_error", "value": value, "message": message}:
                self._report(Send(self._name, "", value))
                # At SIGTERM one of its threads closes the producer while the other may send one more record.
                if self._finishing and message in CLOSED:
                    self._report(Failed(self._name, value))
                else:
                    self._report.failed(self._name, message)
                    self._report(Unknown(self._name, value))


class JavaMember(JavaProgram):
    """Apache Kafka's consumer, as a member of a group."""

    def __init__(self, bootstrap: str, group: str, name: str, report: Progress) -> None:
        options = ("--bootstrap-server", bootstrap, "--topic", TOPIC, "--group-id", group, "--verbose")
        super().__init__(name, report, "org.apache.kafka.tools.VerifiableConsumer", *options)
        self._group = group

    def _take(self, printed: dict[str, Any]) -> None:
        match printed:
            case {"name": "partitions_assigned" | "partitions_revoked", "partitions": partitions}:
                names = [name_of(partition["partition"]) for partition in partitions]
                self._report(Assigned(self._name, self._group, names))
            case {"name": "record_data", "partition": partition, "offset": offset, "value": value}:
                self._report(Polled(self._name, self._group, name_of(partition), [(offset, value)]))


def read_back(
    settings: Mapping[str, str],
    report: Report,
    timeout_s: float,
    topic: str = TOPIC,
    partitions: int = PARTITIONS,
) -> None:
    """Read every partition from its start to its end, within the timeout; no producer is active."""
    reading = {"group.id": "read-back", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **reading, **SILENT, "enable.partition.eof": True})
    records: dict[str, Records] = {name_of(partition, topic): [] for partition in range(partitions)}
    unread = set(records)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    deadline = time.monotonic() + timeout_s
    while unread and time.monotonic() < deadline:
        messages = consumer.consume(5000, 0.2)
        for partition, read in by_partition(messages):
            records[partition] += read
        for message in messages:
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                unread.discard(name_of(present(message.partition()), topic))
    consumer.close()
    for partition, found in records.items():
        report(ReadBack(partition, found, partition not in unread))
