"""Every client produces with every codec it has, and consumes what the others produced."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from tests.broker_process import BrokerProcess
from tests.clients.clients import CLIENTS, CODECS, Client, Record
from tests.clients.exchange import content, printed, sample
from tests.clients.stored import stored_batches


@pytest.mark.parametrize(
    ("client", "codec"), [(client, codec) for client in CLIENTS for codec in client.codecs], ids=str
)
def test_stored_batches_have_the_codec_that_the_client_chose(
    client: Client, codec: str, broker: BrokerProcess, create_topic: Callable[..., str]
) -> None:
    topic = create_topic()
    command, stdin = client.produce(broker.bootstrap, topic, codec, sample(topic))
    printed(client, command, stdin)
    batches = list(stored_batches(broker.data_dir, topic))
    assert {batch.codec for batch in batches} == {codec}
    assert sum(batch.record_count for batch in batches) == len(sample(topic))


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_client_reads_back_what_it_produced(
    client: Client, broker: BrokerProcess, create_topic: Callable[..., str]
) -> None:
    topic = create_topic()
    sent = sample(topic)
    started_ms = time.time() * 1000
    command, stdin = client.produce(broker.bootstrap, topic, "gzip", sent)
    printed(client, command, stdin)
    seen = printed(client, client.consume(broker.bootstrap, topic, len(sent)))
    assert content(seen) == content(sent)
    assert [record.offset for record in seen] == list(range(len(sent)))
    if client.sends_timestamps:
        assert [record.timestamp for record in seen] == [record.timestamp for record in sent]
    else:
        assert all(started_ms - 1 <= record.timestamp <= time.time() * 1000 for record in seen)


@pytest.fixture(scope="module")
def mixed(broker: BrokerProcess) -> tuple[str, list[Record]]:
    """A topic with a batch of each codec, and its records."""
    topic = "batches-of-every-codec"
    sent: list[Record] = []
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "compression.type": codec,
                "linger.ms": 50,
                "log_level": 0,
            }
        )
        for record in sample(codec):
            producer.produce(
                topic,
                record.value,
                record.key,
                timestamp=record.timestamp,
                headers=[*map(tuple, record.headers)],  # type: ignore[list-item]  # only this comes here
            )
            sent.append(record)
        assert producer.flush(30) == 0
    assert {batch.codec for batch in stored_batches(broker.data_dir, topic)} == set(CODECS)
    return topic, sent


@pytest.mark.parametrize("client", [client for client in CLIENTS if set(client.codecs) == set(CODECS)], ids=str)
def test_client_reads_batches_of_every_codec(
    client: Client, broker: BrokerProcess, mixed: tuple[str, list[Record]]
) -> None:
    topic, sent = mixed
    seen = printed(client, client.consume(broker.bootstrap, topic, len(sent)))
    assert content(seen) == content(sent)
    assert [record.timestamp for record in seen] == [record.timestamp for record in sent]


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_log_append_time_replaces_timestamp_of_producer(
    client: Client, broker: BrokerProcess, create_topic: Callable[..., str]
) -> None:
    topic = create_topic(**{"message.timestamp.type": "LogAppendTime"})
    started_ms = time.time() * 1000
    command, stdin = client.produce(broker.bootstrap, topic, "gzip", sample(topic))
    printed(client, command, stdin)
    stamps = [batch.max_timestamp for batch in stored_batches(broker.data_dir, topic)]
    assert stamps
    assert all(started_ms - 1 <= stamp <= time.time() * 1000 for stamp in stamps)
