"""A producer that continues while its broker is killed, the outcome of each record, and a reader of the remaining
records.

Record numbers span all topics; a record's number determines its key, and its value starts with it.
"""

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.typed import present

# librdkafka logs to standard error continuously while a broker is down.
SILENT = {"log_level": 0}
KEYS = 7
OF_ITS_OWN = 3 * KEYS
# Pause at intervals; otherwise the disk fills while the cleaner runs between two kills.
BURST = 20
REST_S = 0.01
_PADDING = "x" * 500


class Partition(NamedTuple):
    """A partition's name."""

    topic: str
    number: int


Numbers = dict[Partition, dict[int, int]]
"""Record numbers by partition and offset."""


def key_of(number: int) -> bytes:
    """Return the key of a record: usually one of few, so that it is soon replaced; sometimes a unique one."""
    return b"own %d" % number if number % OF_ITS_OWN == 0 else b"%d" % (number % KEYS)


class Workload:
    """A producer that sends to every partition in turn until it is stopped."""

    def __init__(self, bootstrap: str, partitions: Sequence[Partition]) -> None:
        self.sent: dict[Partition, list[int]] = defaultdict(list)
        self.acknowledged: Numbers = {partition: {} for partition in partitions}
        self.refused: list[KafkaError] = []
        self._partitions = partitions
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        settings = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 1,
            "compression.type": "lz4",
            "batch.num.messages": 50,
            "queue.buffering.max.messages": 5000,
            "message.timeout.ms": 120_000,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.max.ms": 200,
        }
        self._producer = Producer(settings | SILENT)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Workload":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def wait_for_acknowledged(self, more: int, timeout_s: float = 60) -> None:
        """Return once `more` further records are acknowledged."""
        with self._changed:
            aim = self._count() + more
            enough = self._changed.wait_for(lambda: self._count() >= aim, timeout_s)
        assert not self.refused
        assert enough, f"{self._count()} of {aim} records acknowledged after {timeout_s} s"

    def finish(self) -> None:
        """Stop sending, and wait until every record sent is acknowledged."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert not self.refused
        assert self._count() == sum(map(len, self.sent.values()))

    def _count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def _run(self) -> None:
        for number, partition in enumerate(itertools.cycle(self._partitions)):
            if self._stopping.is_set():
                return
            while not self._accepted(number, partition):
                self._producer.poll(0.01)
            self._producer.poll(0)
            if number % BURST == 0:
                self._stopping.wait(REST_S)

    def _accepted(self, number: int, partition: Partition) -> bool:
        def delivered(error: KafkaError | None, message: Message) -> None:
            with self._changed:
                if error is None:
                    self.acknowledged[partition][present(message.offset())] = number
                else:
                    self.refused.append(error)
                self._changed.notify_all()

        topic, index = partition
        value = f"{number} {_PADDING}"
        try:
            self._producer.produce(topic, value, key_of(number), partition=index, on_delivery=delivered)
        except BufferError:
            return False
        self.sent[partition].append(number)
        return True


class Stored(NamedTuple):
    """The records that a consumer read, in order, and the log start of each partition afterwards."""

    numbers: Numbers
    log_starts: dict[Partition, int]


def read_all(bootstrap: str, partitions: Iterable[Partition]) -> Stored:
    """Read every partition from its start to its end; no producer is active."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "checker", "enable.auto.commit": False}
    consumer = Consumer(settings | SILENT | {"enable.partition.eof": True, "auto.offset.reset": "earliest"})
    numbers: Numbers = {partition: {} for partition in partitions}
    unread = set(numbers)
    consumer.assign([TopicPartition(*partition, OFFSET_BEGINNING) for partition in unread])
    deadline = time.monotonic() + 120
    while unread:
        assert time.monotonic() < deadline, f"{unread} were not read to their ends"
        for message in consumer.consume(5000, 0.5):
            partition = Partition(present(message.topic()), present(message.partition()))
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                unread.discard(partition)
                continue
            number = int(present(message.value()).split(b" ", 1)[0])
            assert message.key() == key_of(number)
            assert message.offset() not in numbers[partition]
            numbers[partition][present(message.offset())] = number
    starts = {
        partition: consumer.get_watermark_offsets(TopicPartition(*partition), 30, cached=False)[0]
        for partition in numbers
    }
    consumer.close()
    return Stored(numbers, starts)
