"""Client telemetry (KIP-714): accepted pushes and their timing."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import pytest

from broker.monitoring.telemetry import Telemetry
from broker.monitoring.telemetry_subscriptions import Subscribed
from broker.network.connection import Connection, RequestContext
from controller.image import MetadataImage, ResourceType
from controller.image_builder import apply_records
from protocol.api import ApiKey
from protocol.compression import Compression, compress
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.push_telemetry import PushTelemetryRequest
from protocol.records.metadata import ConfigRecord
from tests.unit.broker.monitoring.conftest import Monitored

INTERVAL_MS = 1000
MAX_BYTES = 4096


class Client:
    """A client of a broker with a subscription to all metrics every second."""

    def __init__(self, max_instances: int = 4) -> None:
        self.telemetry = Telemetry(Random(1), MAX_BYTES, max_instances)
        self.image = MetadataImage(cluster_id="test")
        self.configure("metrics", "*")
        self.configure("interval.ms", str(INTERVAL_MS))
        self.now_ms = 5.0
        self.connect()

    def configure(self, name: str, value: str) -> None:
        record = ConfigRecord(resource_type=ResourceType.CLIENT_METRICS, resource_name="all", name=name, value=value)
        self.image = apply_records(self.image, [record], offset=self.image.offset + 1, epoch=1)

    def connect(self) -> None:
        self.connection = Connection(1, "PLAINTEXT", "10.0.0.7", 4711)
        self.connection.client_software = ("rdkafka", "2.15")

    @property
    def context(self) -> RequestContext:
        return RequestContext(
            ApiKey.PUSH_TELEMETRY, 0, 1, "shop", 1, "PLAINTEXT", "10.0.0.7", connection=self.connection
        )

    def query(self, instance: bytes = bytes(16)) -> tuple[bytes, Subscribed]:
        return self.telemetry.subscription(self.image, self.context, instance, self.now_ms)

    def push(self, instance: bytes, subscription: int, *, terminating: bool = False, **fields: Any) -> ErrorCode:
        given: dict[str, Any] = {"compression_type": 0, "metrics": b"metrics"} | fields
        request = PushTelemetryRequest(
            client_instance_id=instance, subscription_id=subscription, terminating=terminating, **given
        )
        try:
            self.telemetry.push(self.image, self.context, request, self.now_ms)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE


@pytest.fixture
def client() -> Client:
    return Client()


def test_a_client_gets_an_id_and_its_subscription(client: Client) -> None:
    instance, subscribed = client.query()
    assert instance != bytes(16)
    assert (subscribed.metrics, subscribed.interval_ms) == (("*",), INTERVAL_MS)
    client.now_ms += INTERVAL_MS
    assert client.query(instance) == (instance, subscribed)


def test_push_is_counted_and_logged_at_debug_level(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    instance, subscribed = client.query()
    packed = compress(Compression.ZSTD, b"m" * 1000)
    with caplog.at_level(logging.DEBUG):
        code = client.push(instance, subscribed.subscription_id, compression_type=4, metrics=packed)
    assert code is ErrorCode.NONE
    assert (client.telemetry.pushes, client.telemetry.pushed_bytes) == (1, len(packed))
    assert f"shop at 10.0.0.7 pushed {len(packed)} bytes of metrics, 1000 unpacked" in caplog.text


def test_pushes_after_the_first_must_wait_for_the_interval(client: Client) -> None:
    instance, subscribed = client.query()
    assert client.push(instance, subscribed.subscription_id) is ErrorCode.NONE
    client.now_ms += INTERVAL_MS - 1
    assert client.push(instance, subscribed.subscription_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    client.now_ms += 1
    assert client.push(instance, subscribed.subscription_id) is ErrorCode.NONE
    assert client.telemetry.throttled == 1


def test_subscription_requests_must_wait_for_the_interval(client: Client) -> None:
    instance, _ = client.query()
    with pytest.raises(KafkaError) as early:
        client.query(instance)
    assert early.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"subscription": 1}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression_type": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_client_with_a_stale_subscription_may_request_again_at_once(
    client: Client, fields: dict[str, int], code: ErrorCode
) -> None:
    instance, subscribed = client.query()
    assert client.push(instance, **{"subscription": subscribed.subscription_id} | fields) is code  # type: ignore[arg-type]  # keywords of several types
    assert client.query(instance) == (instance, subscribed)


def test_terminating_client_pushes_once_more_at_once(client: Client) -> None:
    instance, subscribed = client.query()
    assert client.push(instance, subscribed.subscription_id) is ErrorCode.NONE
    assert client.push(instance, subscribed.subscription_id, terminating=True) is ErrorCode.NONE
    client.now_ms += INTERVAL_MS
    assert client.push(instance, subscribed.subscription_id) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("instance", [bytes(16), bytes(15) + b"\x01"])
def test_push_without_a_valid_client_instance_id_is_refused(client: Client, instance: bytes) -> None:
    assert client.push(instance, 0) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"metrics": b"m" * MAX_BYTES}, ErrorCode.NONE),
        ({"metrics": b"m" * (MAX_BYTES + 1)}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"metrics": compress(Compression.GZIP, bytes(1 << 21)), "compression_type": 1}, ErrorCode.INVALID_RECORD),
        ({"metrics": b"no frame", "compression_type": 3}, ErrorCode.INVALID_RECORD),
        ({"metrics": b"", "compression_type": 3}, ErrorCode.NONE),
    ],
    ids=["as large as may be", "larger", "larger when unpacked", "damaged", "empty"],
)
def test_metrics_size_is_bounded_compressed_and_decompressed(
    client: Client, fields: dict[str, Any], code: ErrorCode
) -> None:
    instance, subscribed = client.query()
    assert client.push(instance, subscribed.subscription_id, **fields) is code


def test_client_may_request_a_changed_subscription_before_the_interval(client: Client) -> None:
    instance, before = client.query()
    client.configure("metrics", "org.apache.kafka.producer.")
    assert client.push(instance, before.subscription_id) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert client.query(instance)[1].metrics == ("org.apache.kafka.producer.",)


def test_other_metadata_changes_do_not_reset_the_interval(client: Client) -> None:
    instance, _ = client.query()
    client.image = apply_records(client.image, [], offset=client.image.offset + 1, epoch=1)
    with pytest.raises(KafkaError):
        client.query(instance)


def test_reconnection_resets_a_terminated_client(client: Client) -> None:
    instance, subscribed = client.query()
    client.push(instance, subscribed.subscription_id, terminating=True)
    client.connection.close()
    client.connect()
    assert client.push(instance, subscribed.subscription_id) is ErrorCode.NONE


def test_client_instance_expires_after_a_minute_without_requests(client: Client) -> None:
    instance, subscribed = client.query()
    client.push(instance, subscribed.subscription_id, terminating=True)
    client.now_ms += 60_000
    assert client.push(instance, subscribed.subscription_id) is ErrorCode.NONE


def test_number_of_client_instances_is_bounded(client: Client) -> None:
    instances = [client.query()[0] for _ in range(5)]
    assert list(client.telemetry.instances) == instances[1:]


@pytest.mark.parametrize(
    ("match", "meant"),
    [
        ("client_software_name=rdkafka,client_software_version=2\\..*", True),
        ("client_source_address=10.0.0.7,client_source_port=4711", True),
        ("client_id=other", False),
    ],
)
def test_subscriptions_match_client_attributes(client: Client, match: str, meant: bool) -> None:
    client.configure("match", match)
    assert client.query()[1].metrics == (("*",) if meant else ())


def test_pushes_are_counted_with_their_bytes(monitored: Monitored) -> None:
    broker = monitored.broker
    context = RequestContext(ApiKey.PUSH_TELEMETRY, 0, 1, "shop", 1, "PLAINTEXT", "127.0.0.1")
    instance, subscribed = broker.telemetry.subscription(broker.image, context, bytes(16), 0)
    request = PushTelemetryRequest(
        client_instance_id=instance,
        subscription_id=subscribed.subscription_id,
        terminating=False,
        compression_type=0,
        metrics=b"metrics",
    )
    broker.telemetry.push(broker.image, context, request, 0)
    assert monitored.value("kafka_server_client_metrics_instance_count") == 1
    assert monitored.value("kafka_server_client_metrics_plugin_export_total") == 1
    assert monitored.value("barnabas_client_metrics_bytes_total") == 7
    assert monitored.value("kafka_server_client_metrics_throttle_total") == 0
