"""kill -9 in the middle of an idempotent librdkafka producer's run, again and again, on one data directory.

``BARNABAS_TEST_KILLS`` says how often; the default fits into everyday runs.
"""

import itertools
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess
from tests.oracles.dump_log_segments import dump, dumpable

KILLS = int(os.environ.get("BARNABAS_TEST_KILLS", "3"))
TOPIC = "survivors"
PARTITIONS = 3
ACKNOWLEDGED_BETWEEN_KILLS = 4000
# Small segments roll between two kills, so that recovery meets closed segments, their indexes and snapshots too.
SEGMENT_BYTES = 1 << 20
PADDING = "x" * 500
# librdkafka writes to standard error without end while a broker is gone.
SILENT = {"log_level": 0}


class Workload:
    """A producer that never stops: numbered records in turn to every partition, and what became of each."""

    def __init__(self, bootstrap: str) -> None:
        self.sent: dict[int, list[int]] = defaultdict(list)
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.refused: list[KafkaError] = []
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
        with self._changed:
            aim = len(self.acknowledged) + more
            enough = self._changed.wait_for(lambda: len(self.acknowledged) >= aim, timeout_s)
        assert not self.refused
        assert enough, f"{len(self.acknowledged)} of {aim} records acknowledged after {timeout_s} s"

    def finish(self) -> None:
        """Stop sending, and wait until every record sent is acknowledged."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert not self.refused

    def _run(self) -> None:
        for number in itertools.count():
            if self._stopping.is_set():
                return
            partition = number % PARTITIONS
            while not self._accepted(number, partition):
                self._producer.poll(0.01)
            self._producer.poll(0)

    def _accepted(self, number: int, partition: int) -> bool:
        def delivered(error: KafkaError | None, message: Message) -> None:
            with self._changed:
                if error is None:
                    self.acknowledged[partition, message.offset()] = number
                else:
                    self.refused.append(error)
                self._changed.notify_all()

        try:
            self._producer.produce(TOPIC, f"{number} {PADDING}", partition=partition, on_delivery=delivered)
        except BufferError:
            return False
        self.sent[partition].append(number)
        return True


def read_all(bootstrap: str) -> Iterator[tuple[int, int, int]]:
    """Yield partition, offset and number of every record in the topic, in the order of the offsets."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "checker", "enable.auto.commit": False}
    consumer = Consumer(settings | SILENT)
    ends = {
        partition: consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), 30)[1]
        for partition in range(PARTITIONS)
    }
    consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in ends])
    left = sum(ends.values())
    deadline = time.monotonic() + 120
    while left:
        assert time.monotonic() < deadline, f"{left} records were not read"
        for message in consumer.consume(5000, 1.0):
            assert message.error() is None, message.error()
            left -= 1
            yield message.partition(), message.offset(), int(message.value().split(b" ", 1)[0])
    consumer.close()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, Workload]]:
    """A broker that was killed and restarted KILLS times under a workload that has finished since."""
    with BrokerProcess(tmp_path_factory.mktemp("kill9")) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap} | SILENT)
        config = {"segment.bytes": str(SEGMENT_BYTES)}
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=config)])[TOPIC].result(30)
        with Workload(broker.bootstrap) as workload:
            for _ in range(KILLS):
                workload.wait_for_acknowledged(ACKNOWLEDGED_BETWEEN_KILLS)
                broker.kill()
                broker.start()
            workload.wait_for_acknowledged(ACKNOWLEDGED_BETWEEN_KILLS)
            workload.finish()
        yield broker, workload


def test_every_acknowledged_record_is_there_in_order_and_once(killed: tuple[BrokerProcess, Workload]) -> None:
    broker, workload = killed
    stored: dict[int, list[int]] = defaultdict(list)
    at: dict[tuple[int, int], int] = {}
    for partition, offset, number in read_all(broker.bootstrap):
        stored[partition].append(number)
        at[partition, offset] = number
    assert len(workload.acknowledged) == sum(map(len, workload.sent.values()))
    assert workload.acknowledged == at
    assert stored == workload.sent


def test_apache_kafka_reads_all_that_survived_without_a_complaint(killed: tuple[BrokerProcess, Workload]) -> None:
    broker, workload = killed
    assert broker.stop() == 0
    files = dumpable(broker.data_dir)
    dumped = dump(files)
    assert dumped.complaints == []
    records = sum(len(dumped.records(file)) for file in files if _of_the_topic(file))
    assert records == len(workload.acknowledged)


def _of_the_topic(file: Path) -> bool:
    return file.suffix == ".log" and file.parent.name.startswith(f"{TOPIC}-")
