"""Rule 9: a batch that a producer sends again because the response was lost is stored once, in order.

A proxy between producer and broker passes requests on, sometimes drops a response and closes both connections: the
broker has written the batch, and the producer does not know.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from tests.broker_process import BrokerProcess
from tests.raw_client import RawClient

IN_FLIGHT = 5
RECORDS = 3000


class LossyProxy:
    """Listens on its own port for `target`; `losses` responses are dropped, each with its connection."""

    def __init__(self, losses: int) -> None:
        self.target = ""
        self.lost = 0
        self._left = losses
        self._random = Random(9)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def stop_losing(self) -> None:
        """Pass everything on from now on."""
        self._left = 0

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._hang_up(*self._open)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            host, port = self.target.split(":")
            broker = socket.create_connection((host, int(port)))
            self._open += (client, broker)
            for source, sink, loses in ((client, broker, False), (broker, client, True)):
                self._threads.append(threading.Thread(target=self._pass_on, args=(source, sink, loses)))
                self._threads[-1].start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, loses: bool) -> None:
        responses = 0
        try:
            while data := source.recv(1 << 20):
                responses += 1
                # The first responses belong to the handshake.
                if loses and self._left and responses > 3 and self._random.random() < 0.3:
                    self._left -= 1
                    self.lost += 1
                    break
                sink.sendall(data)
        except OSError:
            pass
        self._hang_up(source, sink)

    @staticmethod
    def _hang_up(*sockets: socket.socket) -> None:
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture
def proxy() -> Iterator[LossyProxy]:
    proxy = LossyProxy(losses=20)
    yield proxy
    proxy.close()


@pytest.fixture
def proxied(proxy: LossyProxy, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker whose advertised address is the proxy's."""
    with BrokerProcess(tmp_path, {"advertised.listeners": f"PLAINTEXT://{proxy.address}"}) as running:
        proxy.target = f"127.0.0.1:{listening_port(running)}"
        yield running
    running.check_log()


def listening_port(broker: BrokerProcess) -> int:
    """Return the port that the broker itself listens on, from its log."""
    return int(broker.log.read_text().split("PLAINTEXT://127.0.0.1:")[1].split(",")[0])


def test_rule_9_client_with_dropped_responses_and_5_in_flight_stores_each_record_once(
    proxied: BrokerProcess, proxy: LossyProxy
) -> None:
    failures: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": proxy.address,
            "enable.idempotence": True,
            "max.in.flight.requests.per.connection": IN_FLIGHT,
            "batch.num.messages": 10,
            "linger.ms": 0,
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 1,
            "reconnect.backoff.max.ms": 20,
            "log_level": 0,
        }
    )
    for number in range(RECORDS):
        producer.produce(
            "once",
            str(number),
            partition=0,
            on_delivery=lambda error, _: error and failures.append(error),  # type: ignore[arg-type, func-returns-value]  # only this comes here; called for its effect
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failures == []
    assert proxy.lost > 0

    proxy.stop_losing()
    consumer = Consumer({"bootstrap.servers": proxy.target, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition("once", 0, 0)])
    read = [message.value() for message in consumer.consume(RECORDS, 30)]
    assert read == [str(number).encode() for number in range(RECORDS)]
    assert consumer.get_watermark_offsets(TopicPartition("once", 0)) == (0, RECORDS)
    consumer.close()


def test_rule_9_duplicates_of_last_five_batches_get_their_offsets_and_others_are_out_of_order(
    broker: BrokerProcess, topic: str
) -> None:
    def send(client: RawClient, sequence: int, producer_id: int = 4242) -> tuple[int, int]:
        records = build_batch(
            [(None, b"a"), (None, b"b")],
            timestamp_ms=1,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        Topic = ProduceRequest.Topic  # noqa: N806
        data = [Topic(name=topic, partition_data=[Topic.Partition(index=0, records=records)])]
        response = client.call(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=data)
        [[answer]] = [part.partition_responses for part in response.responses]
        return answer.error_code, answer.base_offset

    client = RawClient(broker.bootstrap)
    try:
        client.call(ApiKey.METADATA, 4, topics=[MetadataRequest.Topic(name=topic)], allow_auto_topic_creation=True)
        # An unknown producer may start at any sequence.
        assert [send(client, 100 + 2 * number) for number in range(7)] == [(0, 2 * number) for number in range(7)]
    finally:
        client.close()
    again = RawClient(broker.bootstrap)
    try:
        assert [send(again, 100 + 2 * number) for number in range(2, 7)] == [(0, 2 * number) for number in range(2, 7)]
        out_of_order = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert send(again, 102) == out_of_order  # older than the last five
        assert send(again, 116) == out_of_order  # a gap
        assert send(again, 114) == (0, 14)
    finally:
        again.close()
