"""Transactional clients that run during faults and record a history: librdkafka's.

    TransactionalProducer  transactions over several partitions, in which it also reads; aborts some at random, and
                           a successor with the same transactional id fences it during some
    AbandoningProducer     leaves each transaction open: the coordinator aborts it after its time-out
    Pipeline               read-process-write: a member of a group that writes one record to `PIPED` for each record of
                           `TOPIC`, and commits its offsets in the transaction

A commit whose response the client does not get is ambiguous: it has a `Commit` event alone. The applications handle
errors as librdkafka documents it: a retriable error is retried, an abortable one aborts the transaction, after a fatal
one another producer gets the transactional id. A producer may be fenced only by its successor, or when its transaction
was open for longer than its time-out.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Set
from contextlib import suppress
from enum import Enum
from random import Random

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.history.events import Abort, Acknowledged, Assigned, Commit, Committed, Failed, Polled, Send, Unknown
from tests.chaos.history.events import Producer as ProducerEvent
from tests.chaos.workloads import NEVER_SENT, PARTITIONS, SILENT, TOPIC, Progress, by_partition, name_of, offset_of

PIPED = "piped"
PIPED_PARTITIONS = 3
PIPES = "pipes"
TIMEOUT_S = 10.0
ABANDONED_TIMEOUT_S = 2.0
# The coordinator may see a transaction's beginning later than the client does, and its own clock may stop in a pause.
SLACK_S = 1.0
MAX_RECORDS = 8
PAUSE_S = 0.02
CALL_S = 5.0
HANGS_S = 15.0
ABORTED = 0.2
REPLACED = 0.03
PIPE_ABORTED = 0.1
FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
# librdkafka requests the abort of a transaction whose first partition the coordinator has not added yet, for example
# because it was completing the transaction before; Apache Kafka returns the same.
INVALID_ABORT = frozenset({KafkaError.INVALID_TXN_STATE})
# librdkafka logs fatal errors at any level.
SILENCED = logging.getLogger(f"{__name__}.librdkafka")
SILENCED.addHandler(logging.NullHandler())
SILENCED.propagate = False


class Result(Enum):
    """The outcome of a call of librdkafka's transactional API."""

    DONE = 1
    ABORT = 2
    """The transaction must be aborted."""
    FATAL = 3
    """The producer must be replaced."""
    UNKNOWN = 4
    """The client was stopped before the outcome was known."""


class Transactional(ABC):
    """A transactional id, its current producer, and a thread that runs one transaction after the other."""

    def __init__(self, bootstrap: str, name: str, report: Progress, seed: int) -> None:
        self.name = name
        self.random = Random(f"{name} {seed}")
        self._bootstrap = bootstrap
        self._report = report
        self._incarnations = itertools.count(1)
        self._numbers = itertools.count(1)
        self._values = itertools.count(1)
        self._process = name
        self._transaction = ""
        self._committed = ""
        """The last transaction that is known to be committed."""
        self._began_s = 0.0
        self._ending = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as error:
            self._report.failed(self.name, repr(error))
            raise

    def finish(self, timeout_s: float) -> bool:
        """Stop after the current transaction, and return whether its end is known in time."""
        self._ending.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def close(self) -> None:
        self._ending.set()
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            producer = self._take_over(self.name, TIMEOUT_S)
            while producer is not None and not self._ending.is_set():
                producer = self._run_transaction(producer)
                self._ending.wait(PAUSE_S)

    @abstractmethod
    def _run_transaction(self, producer: Producer) -> Producer | None:
        """Run one transaction, and return the producer for the next; None if it must be replaced."""

    def _take_over(self, transactional_id: str, timeout_s: float) -> Producer | None:
        """Return an initialized producer, whose records are of a process of its own; None if stopped, or fenced."""
        settings = {
            "bootstrap.servers": self._bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(timeout_s * 1000),
            # A transaction ends early enough for its successor to begin within the bounds of `faults.py`.
            "socket.timeout.ms": int(timeout_s * 1000),
            "linger.ms": 1,
        }
        producer = Producer(settings | SILENT, logger=SILENCED)
        if self._call(lambda: producer.init_transactions(CALL_S)) is not Result.DONE:
            return None
        self._process = f"{self.name}.{next(self._incarnations)}"
        self._report(ProducerEvent(self._process, True))
        return producer

    def _begin(self, producer: Producer) -> None:
        producer.begin_transaction()
        self._transaction = str(next(self._numbers))
        self._began_s = time.monotonic()

    def _send(self, producer: Producer, topic: str, partition: int, source: str = "") -> None:
        process, where = self._process, name_of(partition, topic)
        value = f"{self.name}-{next(self._values)}"

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._report(Acknowledged(process, where, value, offset_of(message)))
            else:
                never = error.code() in NEVER_SENT
                self._report(Failed(process, value) if never else Unknown(process, value))

        self._report(Send(process, where, value, self._transaction, source))
        producer.produce(topic, value, partition=partition, on_delivery=delivered)
        producer.poll(0)

    def _commit(self, producer: Producer) -> Producer | None:
        """Commit, and return the producer for the next transaction; None if it must be replaced."""
        self._report(Commit(self._process, self._transaction))
        match self._call(lambda: producer.commit_transaction(CALL_S)):
            case Result.DONE:
                self._report(Committed(self._process, self._transaction))
                self._committed = self._transaction
                return producer
            case Result.ABORT:
                # Its abort succeeds only if the coordinator has not committed it.
                if self._call(lambda: producer.abort_transaction(CALL_S)) is Result.DONE:
                    self._report(Abort(self._process, self._transaction))
                    return producer
        return None

    def _abort(self, producer: Producer) -> Producer | None:
        """Abort, and return the producer for the next transaction; None if it must be replaced."""
        self._report(Abort(self._process, self._transaction))
        # With a flush, what is aborted is stored; without one, it is in part.
        producer.flush(self.random.choice((0, CALL_S)))
        aborted = self._call(lambda: producer.abort_transaction(CALL_S), FENCED | INVALID_ABORT) is Result.DONE
        return producer if aborted else None

    def _call(self, call: Callable[[], object], may: Set[int] = frozenset()) -> Result:
        """Call until the result is final; report a fatal error that is not one of `may`.

        A producer whose transaction was open for longer than its time-out may always be fenced.
        """
        while not self._stopping.is_set():
            try:
                call()
            except TimeoutError:
                return Result.FATAL
            except KafkaException as raised:
                error: KafkaError = raised.args[0]
                if error.retriable():
                    continue
                if error.txn_requires_abort():
                    return Result.ABORT
                timed_out = time.monotonic() - self._began_s > TIMEOUT_S - SLACK_S
                if error.code() not in (may | FENCED if timed_out else may):
                    self._report.failed(self._process, error)
                return Result.FATAL
            return Result.DONE
        return Result.UNKNOWN


class TransactionalProducer(Transactional):
    """Writes to several partitions in each transaction, and reads in it what others wrote."""

    def __init__(self, bootstrap: str, name: str, report: Progress, seed: int) -> None:
        super().__init__(bootstrap, name, report, seed)
        settings = {"bootstrap.servers": bootstrap, "group.id": f"{name}-reads", "enable.auto.commit": False}
        self._consumer = Consumer(settings | SILENT)
        self._consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])

    def _run_transaction(self, producer: Producer) -> Producer | None:
        self._begin(producer)
        for partition, records in by_partition(self._consumer.consume(500, 0.01)):
            self._report(Polled(self._process, "", partition, records, self._transaction))
        for _ in range(self.random.randint(1, MAX_RECORDS)):
            self._send(producer, TOPIC, self.random.randrange(PARTITIONS))
        chance = self.random.random()
        if chance < REPLACED:
            return self._replace(producer)
        return self._abort(producer) if chance < REPLACED + ABORTED else self._commit(producer)

    def _replace(self, producer: Producer) -> Producer | None:
        """Initialize a producer with the same id, which aborts the transaction; then try to commit that.

        Return the successor, None if there is none.
        """
        fenced, transaction = self._process, self._transaction
        successor = self._take_over(self.name, TIMEOUT_S)
        if successor is None:
            return None
        self._report(Abort(fenced, transaction))
        result = self._call(lambda: producer.commit_transaction(CALL_S), FENCED)
        if result is Result.DONE:
            self._report.failed(fenced, "committed after its successor was initialized")
        if result is Result.ABORT:
            self._call(lambda: producer.abort_transaction(CALL_S), FENCED)
        return successor

    def _run(self) -> None:
        super()._run()
        self._consumer.close()


class AbandoningProducer(Transactional):
    """Leaves its transactions open, each of another transactional id."""

    def _run(self) -> None:
        for number in itertools.count():
            if self._ending.is_set():
                return
            producer = self._take_over(f"{self.name}-{number}", ABANDONED_TIMEOUT_S)
            if producer is not None:
                self._run_transaction(producer)
            self._ending.wait(2 * ABANDONED_TIMEOUT_S)

    def _run_transaction(self, producer: Producer) -> Producer | None:
        self._begin(producer)
        for partition in range(PARTITIONS):
            self._send(producer, TOPIC, partition)
        with suppress(SystemError):  # confluent-kafka raises it if the time-out of the transaction fences the producer
            producer.flush(CALL_S)
        return None


class Pipeline(Transactional):
    """Writes one record for each that it reads, with the offsets in the same transaction."""

    def __init__(self, bootstrap: str, name: str, report: Progress, seed: int) -> None:
        super().__init__(bootstrap, name, report, seed)
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": PIPES,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        self._consumer = Consumer(settings | SILENT)
        self._must_rewind = False
        """Only once the next producer is initialized: until then, the offsets of an ambiguous commit are unstable."""

    def _run(self) -> None:
        self._consumer.subscribe([TOPIC], on_assign=self._assigned, on_revoke=self._assigned, on_lost=self._assigned)
        super()._run()
        self._consumer.close()

    def _run_transaction(self, producer: Producer) -> Producer | None:
        if self._must_rewind:
            self._rewind()
        messages = [message for message in self._consumer.consume(100, 0.2) if message.error() is None]
        if not messages:
            return producer
        self._begin(producer)
        positions: dict[int, int] = {}
        for partition, records in by_partition(messages):
            self._report(Polled(self._process, PIPES, partition, records, self._transaction))
            number = int(partition.rpartition("-")[2])
            positions[number] = records[-1][0] + 1
            for _, value in records:
                self._send(producer, PIPED, number % PIPED_PARTITIONS, value)
        offsets = [TopicPartition(TOPIC, number, offset) for number, offset in positions.items()]
        match self._call(lambda: self._send_offsets(producer, offsets)):
            case Result.DONE if self.random.random() >= PIPE_ABORTED:
                left = self._commit(producer)
            case Result.DONE | Result.ABORT:
                left = self._abort(producer)
            case _:
                left = None
        self._must_rewind = self._transaction != self._committed
        return left

    def _send_offsets(self, producer: Producer, offsets: list[TopicPartition]) -> None:
        """Add the offsets to the transaction; TimeoutError if the producer is to be replaced.

        librdkafka 2.16 ignores the call's time-out, and hangs if the group's coordinator that it has cached is gone
        (https://github.com/confluentinc/librdkafka/issues/5456 and 5511). The call runs in a thread that can be left.
        """
        group = self._consumer.consumer_group_metadata()
        raised: list[KafkaException] = []

        def send() -> None:
            try:
                producer.send_offsets_to_transaction(offsets, group, CALL_S)
            except KafkaException as error:
                raised.append(error)

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        sending.join(HANGS_S)
        if sending.is_alive():
            raise TimeoutError
        if raised:
            raise raised[0]

    def _rewind(self) -> None:
        """Continue at the committed offsets."""
        while not self._stopping.is_set():
            try:
                found = self._consumer.committed(self._consumer.assignment(), CALL_S)
                for partition in found:
                    if partition.offset < 0:
                        partition.offset = OFFSET_BEGINNING
                    self._consumer.seek(partition)
            except KafkaException:
                continue  # the coordinator or a partition is not available
            self._assigned(self._consumer, found)
            return

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        names = [name_of(partition.partition) for partition in partitions]
        self._report(Assigned(self._process, PIPES, names))
