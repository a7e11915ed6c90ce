"""Client telemetry (KIP-714): the client instances that push metrics, and their limits (Kafka: `ClientMetricsManager`).

Theory of operation. A client requests its subscription, which has an instance id, and then pushes. The push interval
must pass between two pushes, with two exceptions: the first push under a new subscription may come at any time (clients
spread theirs), and a terminating client pushes once more, then never again. An instance is replaced by a new one, with
fresh limits, when subscriptions change, when its connection is closed, and after no request for three intervals and at
least 60 s. The number of instances is bounded; the least recently active one is dropped first.

    push                                             error
    without an instance id                           INVALID_REQUEST
    after a terminating one                          INVALID_REQUEST
    before the interval has passed                   THROTTLING_QUOTA_EXCEEDED
    with another subscription id                     UNKNOWN_SUBSCRIPTION_ID: the client requests it again
    of an unknown compression type                   UNSUPPORTED_COMPRESSION_TYPE: the same
    larger than `telemetry.max.bytes`                TELEMETRY_TOO_LARGE
    damaged, or larger than that when decompressed   INVALID_RECORD

Apache Kafka passes the metrics to a plug-in. Here they are counted, logged at level debug, and dropped.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.monitoring.telemetry_subscriptions import Subscribed, Subscription, parse_subscriptions, subscribe
from controller.image import MetadataImage, ResourceType
from protocol.compression import Compression, CompressionError, decompress
from protocol.errors import ErrorCode, KafkaError
from protocol.plural import count_of
from protocol.primitives import ZERO_UUID, uuid_text

if TYPE_CHECKING:
    from random import Random

    from broker.network.connection import RequestContext
    from protocol.messages.push_telemetry import PushTelemetryRequest

MAX_INSTANCES = 16_384
_MIN_EXPIRY_MS = 60_000
_EXPIRY_INTERVALS = 3
_ONE_UUID = bytes(15) + b"\x01"
_REQUEST_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)

_log = logging.getLogger("broker.telemetry")


class ClientInstance:
    """One client instance; times are in ms of a monotonic clock."""

    __slots__ = (
        "_connection",
        "_pushed_ms",
        "_requested_ms",
        "last_error",
        "last_request_ms",
        "subscribed",
        "terminating",
    )

    def __init__(self, subscribed: Subscribed, context: RequestContext) -> None:
        self.subscribed = subscribed
        self._connection = context.connection
        self._requested_ms = self._pushed_ms = -float("inf")
        self.last_request_ms = 0.0
        self.last_error = ErrorCode.NONE
        self.terminating = False

    def is_gone(self, now_ms: float) -> bool:
        """Return whether the instance has expired or its connection is closed."""
        expiry_ms = max(_MIN_EXPIRY_MS, _EXPIRY_INTERVALS * self.subscribed.interval_ms)
        return now_ms - self.last_request_ms >= expiry_ms or (self._connection is not None and self._connection.closed)

    def may_request(self, now_ms: float) -> bool:
        """Return whether the client may get its subscription now; if so, record it."""
        if now_ms - max(self._requested_ms, self._pushed_ms) < self.subscribed.interval_ms:
            return self.last_error in _REQUEST_AGAIN
        self._requested_ms = now_ms
        return True

    def may_push(self, now_ms: float) -> bool:
        """Return whether the client may push now; if so, record it."""
        if self._requested_ms <= self._pushed_ms and now_ms - self._pushed_ms < self.subscribed.interval_ms:
            return False
        self._pushed_ms = now_ms
        return True


class Telemetry:
    """All client instances; the counters only grow."""

    def __init__(self, random: Random, max_bytes: int, max_instances: int = MAX_INSTANCES) -> None:
        """Accept at most `max_bytes` per push, compressed or not; keep at most `max_instances`."""
        self.max_bytes = max_bytes
        self.instances: OrderedDict[bytes, ClientInstance] = OrderedDict()
        self.pushes = 0
        self.pushed_bytes = 0
        self.throttled = 0
        self.unknown_subscriptions = 0
        self.invalid = 0
        self._random = random
        self._max_instances = max_instances
        self._image: MetadataImage | None = None
        self._configured: dict[str, Mapping[str, str]] = {}
        self._subscriptions: list[Subscription] = []

    def subscription(
        self, image: MetadataImage, context: RequestContext, client_instance_id: bytes, now_ms: float
    ) -> tuple[bytes, Subscribed]:
        """Return the instance id, a new one if it is zero, and its subscription; KafkaError if throttled."""
        if client_instance_id == ZERO_UUID:
            client_instance_id = self._random.randbytes(16)
        instance = self._instance(image, context, client_instance_id, now_ms)
        if not instance.may_request(now_ms):
            raise self._too_early()
        instance.last_error = ErrorCode.NONE
        return client_instance_id, instance.subscribed

    def push(self, image: MetadataImage, context: RequestContext, request: PushTelemetryRequest, now_ms: float) -> None:
        """Check and count a push, or raise KafkaError."""
        if request.client_instance_id in (ZERO_UUID, _ONE_UUID):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "an invalid client instance id")
        instance = self._instance(image, context, request.client_instance_id, now_ms)
        try:
            size = self._check(instance, request, now_ms)
        except KafkaError as error:
            instance.last_error = error.code
            _log.debug("Refused metrics of %s at %s: %s", context.client_id, context.client_host, error)
            raise
        finally:
            instance.terminating = request.terminating
        instance.last_error = ErrorCode.NONE
        if request.metrics:
            self.pushes += 1
            self.pushed_bytes += len(request.metrics)
            _log.debug(
                "%s at %s pushed %s of metrics, %d unpacked, as instance %s",
                context.client_id,
                context.client_host,
                count_of(len(request.metrics), "byte"),
                size,
                uuid_text(request.client_instance_id),
            )

    def _check(self, instance: ClientInstance, request: PushTelemetryRequest, now_ms: float) -> int:
        """Return the decompressed size of the metrics."""
        if instance.terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the client instance is terminating")
        if not (instance.may_push(now_ms) or request.terminating):
            raise self._too_early()
        if request.subscription_id != instance.subscribed.subscription_id:
            self.unknown_subscriptions += 1
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        try:
            codec = Compression(request.compression_type)
        except ValueError as error:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE) from error
        if len(request.metrics) > self.max_bytes:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE, f"more than {count_of(self.max_bytes, 'byte')}")
        try:
            return len(decompress(codec, request.metrics, self.max_bytes)) if request.metrics else 0
        except CompressionError as error:
            self.invalid += 1
            raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error

    def _instance(
        self, image: MetadataImage, context: RequestContext, client_instance_id: bytes, now_ms: float
    ) -> ClientInstance:
        """Return the instance of this id, a new one if it is unknown or gone."""
        self._follow(image)
        instance = self.instances.get(client_instance_id)
        if instance is None or instance.is_gone(now_ms):
            subscribed = subscribe(self._subscriptions, client_instance_id, _attributes(client_instance_id, context))
            instance = self.instances[client_instance_id] = ClientInstance(subscribed, context)
            if len(self.instances) > self._max_instances:
                self.instances.popitem(last=False)
        self.instances.move_to_end(client_instance_id)
        instance.last_request_ms = now_ms
        return instance

    def _follow(self, image: MetadataImage) -> None:
        """Apply the subscriptions of a newer image; if they changed, drop all instances with their limits."""
        if image is self._image:
            return
        self._image = image
        configured = {
            name: values for (kind, name), values in image.all_configs().items() if kind == ResourceType.CLIENT_METRICS
        }
        if configured != self._configured:
            self._configured = configured
            self._subscriptions = parse_subscriptions(configured)
            self.instances.clear()

    def _too_early(self) -> KafkaError:
        self.throttled += 1
        return KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "before the next push interval")


def _attributes(client_instance_id: bytes, context: RequestContext) -> dict[str, str | None]:
    """Return the client attributes that a subscription may match."""
    connection = context.connection
    name, version = (None, None) if connection is None else connection.client_software
    return {
        "client_instance_id": uuid_text(client_instance_id),
        "client_id": context.client_id,
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": context.client_host,
        "client_source_port": None if connection is None else str(connection.client_port),
    }
