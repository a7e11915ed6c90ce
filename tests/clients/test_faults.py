"""Real clients meet each kind of fault, and do what they promise: retry, deduplicate, wait or report."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.broker_process import QUICK_GROUPS, BrokerProcess
from tests.clients.control import ControlClient

SENT = [f"v{number}" for number in range(5)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = QUICK_GROUPS | {"barnabas.control.listener": "127.0.0.1:0", "barnabas.test.profile": "true"}
    with BrokerProcess(tmp_path_factory.mktemp("faults"), settings) as running:
        yield running
    running.check_log()


@pytest.fixture
def control(broker: BrokerProcess, topic: str) -> Iterator[ControlClient]:
    """Return the control of the broker, with a topic of this test."""
    client = ControlClient(broker.control)
    client.post("/v1/topics", topic=topic)
    yield client
    client.ask("DELETE", "/v1/faults")


def send_by_kafka_python(bootstrap: str, topic: str, values: list[str]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, retry_backoff_ms=20, reconnect_backoff_ms=20)
    for value in values:
        producer.send(topic, value.encode()).get(30)
    producer.close()


def send_by_confluent(bootstrap: str, topic: str, values: list[str]) -> None:
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "retry.backoff.ms": 20, "log_level": 0}
    producer = Producer(settings | {"reconnect.backoff.ms": 20})
    for value in values:
        producer.produce(topic, value.encode())
    assert producer.flush(30) == 0


def send_by_aiokafka(bootstrap: str, topic: str, values: list[str]) -> None:
    async def body() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, retry_backoff_ms=20)
        await producer.start()
        try:
            for value in values:
                await producer.send_and_wait(topic, value.encode())
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(body(), 30))


def read_by_kafka_python(bootstrap: str, topic: str, count: int) -> list[str]:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", retry_backoff_ms=20, metadata_max_age_ms=500
    )
    values = [next(consumer).value.decode() for _ in range(count)]
    consumer.close()
    return values


def read_by_confluent(bootstrap: str, topic: str, count: int) -> list[str]:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": f"{topic}-c", "check.crcs": True}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest", "log_level": 0, "fetch.error.backoff.ms": 20})
    consumer.subscribe([topic])
    values: list[str] = []
    ends = time.monotonic() + 30
    while len(values) < count and time.monotonic() < ends:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append((message.value() or b"").decode())
    consumer.close()
    return values


def read_by_aiokafka(bootstrap: str, topic: str, count: int) -> list[str]:
    async def body() -> list[str]:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            retry_backoff_ms=20,
            metadata_max_age_ms=500,
        )
        await consumer.start()
        try:
            return [(await consumer.getone()).value.decode() for _ in range(count)]
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(body(), 30))


SENDERS = {"kafka-python": send_by_kafka_python, "confluent-kafka": send_by_confluent, "aiokafka": send_by_aiokafka}
READERS = {"kafka-python": read_by_kafka_python, "confluent-kafka": read_by_confluent, "aiokafka": read_by_aiokafka}


@pytest.mark.parametrize("client", SENDERS)
@pytest.mark.parametrize(
    "action",
    [
        {"error": "NOT_LEADER_OR_FOLLOWER"},
        {"error": "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "when": "after"},
        {"disconnect": "before"},
        {"disconnect": "after"},
        {"delay_ms": 50},
        {"delay_ms": 50, "when": "after"},
        {"throttle_ms": 50},
    ],
    ids=lambda action: "-".join(map(str, action.values())),
)
def test_every_record_of_an_idempotent_producer_is_there_once(
    client: str, action: dict[str, Any], broker: BrokerProcess, control: ControlClient, topic: str
) -> None:
    rule_id = control.fault(action, api="Produce", topic=topic, count=2)
    SENDERS[client](broker.bootstrap, topic, SENT)
    assert control.values(topic) == SENT
    assert control.hits(rule_id) >= 1, "the fault never happened"


@pytest.mark.parametrize("client", READERS)
@pytest.mark.parametrize(
    "action",
    [
        {"error": "NOT_LEADER_OR_FOLLOWER"},
        {"error": "UNKNOWN_TOPIC_OR_PARTITION"},
        {"disconnect": "before"},
        {"disconnect": "after"},
        {"delay_ms": 50},
        {"throttle_ms": 50},
        {"corrupt": "truncate"},
    ],
    ids=lambda action: "-".join(map(str, action.values())),
)
def test_every_record_is_read_once(
    client: str, action: dict[str, Any], broker: BrokerProcess, control: ControlClient, topic: str
) -> None:
    control.post(f"/v1/topics/{topic}/records", records=[{"value": value} for value in SENT])
    rule_id = control.fault(action, api="Fetch", topic=topic, count=2)
    assert READERS[client](broker.bootstrap, topic, len(SENT)) == SENT
    assert control.hits(rule_id) >= 1, "the fault never happened"


@pytest.mark.parametrize("client", SENDERS)
def test_a_producer_waits_for_the_acknowledgement_that_is_held(
    client: str, broker: BrokerProcess, control: ControlClient, topic: str
) -> None:
    rule_id = control.fault({"hold": "after"}, api="Produce", topic=topic, count=1)
    sending = threading.Thread(target=SENDERS[client], args=(broker.bootstrap, topic, ["v"]))
    sending.start()
    control.await_hits(rule_id)
    assert control.values(topic) == ["v"], "it is appended"
    assert sending.is_alive(), "and not acknowledged"
    assert control.post(f"/v1/faults/{rule_id}/release") == {"released": 1}
    sending.join(30)
    assert not sending.is_alive()


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka"])
def test_a_consumer_finds_damaged_records(
    client: str, broker: BrokerProcess, control: ControlClient, topic: str
) -> None:
    control.post(f"/v1/topics/{topic}/records", records=[{"value": "v"}])
    control.fault({"corrupt": "records"}, api="Fetch", topic=topic)
    with pytest.raises(Exception, match=r"(?i)corrupt|crc"):
        READERS[client](broker.bootstrap, topic, 1)


def test_librdkafka_reads_damaged_records_again(broker: BrokerProcess, control: ControlClient, topic: str) -> None:
    control.post(f"/v1/topics/{topic}/records", records=[{"value": "v"}])
    rule_id = control.fault({"corrupt": "records"}, api="Fetch", topic=topic, count=2)
    assert read_by_confluent(broker.bootstrap, topic, 1) == ["v"]
    assert control.hits(rule_id) == 2


def test_a_member_joins_in_spite_of_errors_of_the_coordinator(
    broker: BrokerProcess, control: ControlClient, topic: str
) -> None:
    control.post(f"/v1/topics/{topic}/records", records=[{"value": "v"}])
    group = f"{topic}-c"
    joins = control.fault({"error": "COORDINATOR_LOAD_IN_PROGRESS"}, api="JoinGroup", group=group, count=1)
    finds = control.fault({"error": "COORDINATOR_NOT_AVAILABLE"}, api="FindCoordinator", group=group, count=1)
    assert read_by_confluent(broker.bootstrap, topic, 1) == ["v"]
    assert (control.hits(joins), control.hits(finds)) == (1, 1)
