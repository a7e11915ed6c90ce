"""Configurations of client metrics subscriptions (KIP-714): which metrics which clients push, and how often."""

from __future__ import annotations

import re
from collections.abc import Iterable

from controller.configs.config_table import table
from controller.configs.definition import ConfigDef, ConfigError

CLIENT_METRICS_CONFIGS: dict[str, ConfigDef] = {
    definition.name: definition
    for definition in table(
        """
        interval.ms INT 300000 cluster-wide
            How often the clients push their metrics, from 100 to 3600000 milliseconds.
        match LIST '' cluster-wide
            Which clients are meant, as property=pattern pairs that all have to fit; every client if empty.
        metrics LIST '' cluster-wide
            What the names of the metrics begin with; * stands for all of them.
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
    """Return the patterns of a subscription's `match`, by what they are about; ConfigError if one is none."""
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
