"""Generated records survive `consume --json` and `produce --json` through a real broker."""

from __future__ import annotations

from itertools import count
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.broker_process import BrokerProcess
from tests.unit.barnabas.conftest import Command

PARTITIONS = 3
FIELDS = st.none() | st.binary(max_size=30) | st.text(max_size=20).map(str.encode)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "key": FIELDS,
            "value": FIELDS,
            "headers": st.lists(st.tuples(st.sampled_from(["a", "b", "ü", ""]), FIELDS), max_size=4),
            "timestamp": st.integers(1, 1_700_000_000_000),
            "partition": st.integers(0, PARTITIONS - 1),
        }
    ),
    min_size=1,
    max_size=30,
)
numbers = count()


def stored(bootstrap: str, topic: str) -> list[tuple[Any, ...]]:
    """Return a topic's records by partition, read by librdkafka."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0, "fetch.wait.max.ms": 10})
    partitions = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    number = sum(consumer.get_watermark_offsets(partition, timeout=30)[1] for partition in partitions)
    consumer.assign(partitions)
    records = consumer.consume(number, 30)
    assert [record.error() for record in records] == [None] * number
    consumer.close()
    return sorted(
        (
            (one.partition(), one.offset(), one.key(), one.value(), one.headers() or [], one.timestamp())
            for one in records
        ),
        key=lambda found: found[:2],
    )


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=RECORDS)
def test_json_records_round_trip_through_a_broker(
    barnabas: Command, shared_broker: BrokerProcess, records: list[dict[str, Any]]
) -> None:
    name = f"round-trip-{next(numbers)}"
    barnabas("topic", "create", f"{name}:{PARTITIONS}", f"{name}-copy:{PARTITIONS}", "-c", "retention.ms=-1")
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap, "log_level": 0})
    for record in records:
        producer.produce(name, **record)
    assert producer.flush(30) == 0
    printed = barnabas("consume", name, "--exit", "--json")
    assert printed.out.count("\n") == len(records)
    assert barnabas("produce", f"{name}-copy", "--json", stdin=printed.out.encode()) == (0, "", "")
    assert stored(shared_broker.bootstrap, f"{name}-copy") == stored(shared_broker.bootstrap, name)
