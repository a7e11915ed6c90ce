"""Checks of the configs of a client metrics subscription (KIP-714)."""

from __future__ import annotations

from collections.abc import Mapping

from controller.configs.client_metrics import CLIENT_METRICS_CONFIGS, MAX_INTERVAL_MS, MIN_INTERVAL_MS, parse_match
from controller.configs.definition import ConfigError, parse_value
from protocol.errors import ErrorCode, KafkaError


def check_client_metrics_configs(configs: Mapping[str, str], subscription: str) -> None:
    """Raise KafkaError unless a subscription can have these configs; it exists once it has one."""
    if not subscription:
        raise _invalid_request("Subscription name can't be empty")
    unknown = [name for name in configs if name not in CLIENT_METRICS_CONFIGS]
    if unknown:
        raise _invalid_request(f"Unknown client metrics configuration: {unknown[0]}")
    try:
        values = {name: parse_value(CLIENT_METRICS_CONFIGS[name], text) for name, text in configs.items()}
        parse_match(values.get("match", ()))
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    interval_ms = values.get("interval.ms", MAX_INTERVAL_MS)
    if not MIN_INTERVAL_MS <= interval_ms <= MAX_INTERVAL_MS:
        raise _invalid_request(
            f"Invalid value {interval_ms} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )


def _invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
