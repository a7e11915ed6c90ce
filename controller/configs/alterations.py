"""Checks of dynamic config changes, for one broker or for all (KIP-226; Kafka: `DynamicBrokerConfig`)."""

from collections.abc import Mapping

from controller.configs.broker import BROKER_CONFIGS
from controller.configs.conflicts import check_conflicts
from controller.configs.definition import ConfigError, UpdateMode, parse_value
from controller.configs.effective import StaticSettings, effective_broker_config
from controller.configs.jaas import check_jaas
from controller.configs.listener_names import is_listener_setting, without_listener
from controller.image import MetadataImage

# Can only be altered for single listeners: key stores and trust stores.
_PER_LISTENER_ONLY = {
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
}

# Listener settings that can be altered for all brokers; all others only for one broker.
_CLUSTER_WIDE_LISTENER_SETTINGS = {"max.connections", "max.connection.creation.rate", "num.network.threads"}

# With 0 of these no client could connect to change it back.
_NOT_ZERO = {"max.connections", "max.connection.creation.rate"}

# One change can at most halve or double these thread counts.
_THREAD_COUNTS = (
    "log.cleaner.threads",
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)


def check_alterations(
    image: MetadataImage, altered: MetadataImage, settings: StaticSettings, values: Mapping[str, str], broker: str
) -> None:
    """Raise ConfigError unless each value can be set, for one broker or (the empty name) for all.

    `altered` is `image` after the change. Unknown names are accepted: they may belong to a plug-in or to a later
    version.
    """
    _check_scope(values, broker)
    for name, text in values.items():
        definition = BROKER_CONFIGS.get(without_listener(name))
        if definition is not None and parse_value(definition, text) == 0 and definition.name in _NOT_ZERO:
            raise ConfigError(f"Invalid {definition.name} 0")
    check_jaas(values)
    check_conflicts(lambda name: effective_broker_config(altered, settings, name))
    for name in _THREAD_COUNTS:
        before, after = (effective_broker_config(known, settings, name) for known in (image, altered))
        _check_thread_count(name, after, before)


def _check_scope(values: Mapping[str, str], broker: str) -> None:
    known = {name: BROKER_CONFIGS[name].update_mode for name in values if name in BROKER_CONFIGS}
    _refuse("Cannot update these configs dynamically", [name for name in values if _is_read_only(name)])
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        [name for name in values if name in _PER_LISTENER_ONLY],
    )
    if not broker:
        single = [name for name in known if known[name] is UpdateMode.PER_BROKER]
        single += [
            name
            for name in values
            if is_listener_setting(name) and without_listener(name) not in _CLUSTER_WIDE_LISTENER_SETTINGS
        ]
        _refuse("Cannot update these configs at default cluster level, broker id must be specified", single)


def _is_read_only(name: str) -> bool:
    """Return whether a config cannot be altered, for a single listener either: Kafka stores it for the next start."""
    definition = BROKER_CONFIGS.get(without_listener(name))
    return definition is not None and definition.update_mode is UpdateMode.READ_ONLY


def _refuse(problem: str, names: list[str]) -> None:
    if names:
        raise ConfigError(f"{problem}: [{', '.join(names)}]")


def _check_thread_count(name: str, size: int, current: int) -> None:
    if size < current // 2:
        problem = f"value should be at least half the current value {current}"
    elif size > current * 2:
        problem = f"value should not be greater than double the current value {current}"
    else:
        return
    raise ConfigError(f"Dynamic thread count update validation failed for {name}={size}, {problem}")
