"""Metrics of a broker process under a real client: produced, fetched, and the lag of its group."""

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from tests.broker_process import QUICK_GROUPS, BrokerProcess

TOPIC, GROUP, SENT, READ = "orders", "readers", 10, 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    properties = QUICK_GROUPS | {"barnabas.metrics.listener": "127.0.0.1:0"}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), properties) as running:
        yield running
    running.check_log()


def series(log: Path) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return every sample, from the address in the broker's log."""
    found = re.search(r"http://[\d.:]+/metrics", log.read_text())
    assert found is not None
    with urllib.request.urlopen(found[0], timeout=30) as page:
        families = text_string_to_metric_families(page.read().decode())
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def test_metrics_show_produced_and_fetched_records(broker: BrokerProcess) -> None:
    client = {"bootstrap.servers": broker.bootstrap}
    admin = AdminClient(client)  # type: ignore[arg-type]  # a dict's values are invariant
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    producer = Producer(client)
    for number in range(SENT):
        producer.produce(TOPIC, f"order {number}")
    assert producer.flush(30) == 0
    consumer = Consumer(client | {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([TOPIC])
    last = consumer.consume(READ, 30)[-1]
    consumer.commit(message=last, asynchronous=False)

    samples = series(broker.log)
    consumer.close()
    topic, group = ("topic", TOPIC), ("consumergroup", GROUP)
    where = frozenset({group, topic, ("partition", "0")})
    assert samples["kafka_consumergroup_current_offset", where] == READ
    assert samples["kafka_consumergroup_lag", where] == SENT - READ
    assert samples["kafka_consumergroup_lag_sum", frozenset({group, topic})] == SENT - READ
    assert samples["kafka_consumergroup_members", frozenset({group})] == 1
    assert samples["kafka_coordinator_group_groupmetadatamanager_numgroupsstable", frozenset()] == 1
    assert samples["kafka_server_brokertopicmetrics_messagesin_total", frozenset({topic})] == SENT
    assert samples["kafka_server_brokertopicmetrics_bytesout_total", frozenset({topic})] > 0
    assert samples["kafka_network_requestmetrics_totaltimems_count", frozenset({("request", "JoinGroup")})] >= 1
    assert (
        samples[
            "kafka_server_socket_server_metrics_connection_count",
            frozenset({("listener", "PLAINTEXT"), ("networkProcessor", "0")}),
        ]
        >= 1
    )
