"""Telemetry subscriptions of clients, from the configurations of CLIENT_METRICS resources (KIP-714). Pure.

    metrics       prefixes of metric names; `*` means all
    interval.ms   the push interval
    match         selects clients by ATTRIBUTE=REGEX; all of them must match

A client gets the union of the subscriptions that match it, at their shortest interval. The subscription id is a
checksum of that: a push with an outdated id is refused, and the client requests its subscription again. Values are
checked when they are set.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from controller.configs.client_metrics import CLIENT_METRICS_CONFIGS, parse_match
from controller.configs.definition import ConfigError, parse_value
from protocol.checksum import crc32c

ALL_METRICS = "*"
DEFAULT_INTERVAL_MS: int = parse_value(
    CLIENT_METRICS_CONFIGS["interval.ms"], CLIENT_METRICS_CONFIGS["interval.ms"].default
)

_log = logging.getLogger("broker.telemetry")


class Subscription(NamedTuple):
    """One CLIENT_METRICS resource."""

    metrics: frozenset[str]
    interval_ms: int
    match: Mapping[str, re.Pattern[str]]

    def matches(self, client: Mapping[str, str | None]) -> bool:
        """Return whether a client with these attributes is selected."""
        for attribute, pattern in self.match.items():
            value = client.get(attribute)
            if value is None or not pattern.fullmatch(value):
                return False
        return True


class Subscribed(NamedTuple):
    """The subscription of one client."""

    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int


def parse_subscriptions(configured: Mapping[str, Mapping[str, str]]) -> list[Subscription]:
    """Return the subscriptions of these resources; log a warning for an invalid one and skip it."""
    found = []
    for name, texts in configured.items():
        try:
            values = {
                key: parse_value(each, texts.get(key, each.default)) for key, each in CLIENT_METRICS_CONFIGS.items()
            }
            metrics = frozenset(values["metrics"])
            found.append(Subscription(metrics, values["interval.ms"], parse_match(values["match"])))
        except ConfigError as error:
            _log.warning("Ignoring the client metrics subscription %s: %s", name, error)
    return found


def subscribe(
    subscriptions: Iterable[Subscription], client_instance_id: bytes, client: Mapping[str, str | None]
) -> Subscribed:
    """Return the union of the subscriptions that match a client."""
    metrics: set[str] = set()
    interval_ms = DEFAULT_INTERVAL_MS
    for subscription in subscriptions:
        if subscription.matches(client):
            metrics |= subscription.metrics
            interval_ms = min(interval_ms, subscription.interval_ms)
    names = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics))
    checksum = crc32c(f"{names}{interval_ms}".encode()) ^ crc32c(client_instance_id)
    return Subscribed(names, interval_ms, checksum - (1 << 32) if checksum >> 31 else checksum)
