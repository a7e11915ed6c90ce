"""A compacted topic on a real broker: clients read the last record of each key, also after a kill."""

import time
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess

SETTINGS = {"log.cleaner.backoff.ms": 100, "log.initial.task.delay.ms": 100, "group.initial.rebalance.delay.ms": 0}
TOPIC = {"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01"}


def table(bootstrap: str) -> tuple[dict[bytes | None, bytes | None], int]:
    """Read the topic from its start; return its table and the number of records."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe(["t"])
    found: dict[bytes | None, bytes | None] = {}
    count = 0
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            break
        found[message.key()] = message.value()
        count += 1
    consumer.close()
    return found, count


def test_client_reads_last_record_of_each_key(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, SETTINGS).start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1, config=TOPIC)])["t"].result(30)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "compression.type": "lz4"})
        expected: dict[bytes, bytes] = {}
        deadline = time.monotonic() + 120
        number = 0
        while True:
            key, value = b"%d" % (number % 20), b"%d" % number
            expected[key] = value
            producer.produce("t", value, key)
            producer.flush(30)
            number += 1
            if number % 200 == 0:
                found, count = table(broker.bootstrap)
                assert found == expected
                if count < number / 2:
                    break
            assert time.monotonic() < deadline, "nothing was compacted"
        broker.kill()
        broker.start()
        assert table(broker.bootstrap)[0] == expected
    finally:
        broker.stop()
