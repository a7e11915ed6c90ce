"""What operators ask of clients: subscriptions to metrics, as the configurations of CLIENT_METRICS resources say.

    metrics       prefixes of the metrics' names; `*` stands for all of them
    interval.ms   how often a client pushes them
    match         which clients are meant, as ATTRIBUTE=REGEX; all attributes that are named have to match

A client is given the union of the subscriptions that match it, at the shortest of their intervals. Its subscription id
is a checksum of that, so that a client that pushes under an older one is told to ask again. Pure; what the values may
be is checked where they are set.
"""

from __future__ import annotations

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
        """Say whether a client of these attributes is meant."""
        for attribute, pattern in self.match.items():
            value = client.get(attribute)
            if value is None or not pattern.fullmatch(value):
                return False
        return True


class Subscribed(NamedTuple):
    """What one client is asked for."""

    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int


def parse_subscriptions(configured: Mapping[str, Mapping[str, str]]) -> list[Subscription]:
    """Return the subscriptions of these resources; one that cannot be understood is left out with a warning."""
    found = []
    for name, texts in configured.items():
        try:
            values = {
                key: parse_value(each, texts.get(key, each.default)) for key, each in CLIENT_METRICS_CONFIGS.items()
            }
            metrics = frozenset(values["metrics"])
            found.append(Subscription(metrics, values["interval.ms"], parse_match(values["match"])))
        except ConfigError as error:
            _log.warning("The client metrics subscription %s is ignored: %s", name, error)
    return found


def subscribe(
    subscriptions: Iterable[Subscription], client_instance_id: bytes, client: Mapping[str, str | None]
) -> Subscribed:
    """Return what the subscriptions together ask of a client."""
    metrics: set[str] = set()
    interval_ms = DEFAULT_INTERVAL_MS
    for subscription in subscriptions:
        if subscription.matches(client):
            metrics |= subscription.metrics
            interval_ms = min(interval_ms, subscription.interval_ms)
    names = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics))
    checksum = crc32c(f"{names}{interval_ms}".encode()) ^ crc32c(client_instance_id)
    return Subscribed(names, interval_ms, checksum - (1 << 32) if checksum >> 31 else checksum)
