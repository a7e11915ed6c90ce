"""Configs of client metrics subscriptions (KIP-714): which clients push which metrics, and how often."""

import re
from collections.abc import Iterable

from controller.configs.config_table import table
from controller.configs.definition import ConfigDef, ConfigError

CLIENT_METRICS_CONFIGS: dict[str, ConfigDef] = {
    definition.name: definition
    for definition in table(
        """
        interval.ms INT 300000 cluster-wide
            Interval at which clients push their metrics, from 100 to 3600000 milliseconds.
        match LIST '' cluster-wide
            The clients, as property=pattern pairs that must all match; every client if empty.
        metrics LIST '' cluster-wide
            Prefixes of the names of the metrics to push; * stands for all metrics.
        """
    )
}

MIN_INTERVAL_MS, MAX_INTERVAL_MS = 100, 3_600_000

MATCHED = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def parse_match(pairs: Iterable[str]) -> dict[str, re.Pattern[str]]:
    """Return the patterns of a subscription's `match`, by client property; ConfigError if a pair is invalid."""
    patterns = {}
    for pair in pairs:
        try:
            name, pattern = pair.split("=")
            if name.strip() not in MATCHED:
                raise ValueError
            patterns[name.strip()] = re.compile(pattern.strip())
        except (ValueError, re.error):
            raise ConfigError(f"Illegal client matching pattern: {pair}") from None
    return patterns
