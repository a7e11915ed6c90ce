"""Settings that have no effect, or not that of Kafka's default: logged once, when a node starts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from controller.configs import BROKER_CONFIGS
from controller.configs.listener_names import without_listener
from controller.configs.unsupported_security import SECURITY_CONFIGS

if TYPE_CHECKING:
    from broker.settings import Settings

_OF_SECURITY = {definition.name: definition for definition in SECURITY_CONFIGS}
_log = logging.getLogger("broker")


def warn_of_settings(settings: Settings) -> None:
    """Name settings that do not exist or do not protect, and more replicas than a broker that is alone can have."""
    if settings.unknown:
        names = "; ".join(_unknown(name, origin) for name, origin in settings.unknown.items())
        _log.warning("Settings that do not exist are ignored: %s", names)
    if idle := sorted(name for name, value in settings.explicit.items() if _protects_nothing(name, value)):
        _log.warning(
            "Settings of security that have no effect: %s. Any client can connect and do everything, without a login "
            "and without encryption",
            ", ".join(idle),
        )
    if "group.initial.rebalance.delay.ms" in settings.explicit and not settings["group.initial.rebalance.delay.ms"]:
        _log.info(
            "group.initial.rebalance.delay.ms=0, as in the server.properties that Apache Kafka comes with: a new group "
            "does not wait for more members (default: 3000)"
        )
    replicas = settings["default.replication.factor"]
    if replicas > 1 and not settings.voters:
        _log.warning(
            "default.replication.factor=%d is more than one broker can have: nothing is created without a number",
            replicas,
        )


def _protects_nothing(name: str, value: str) -> bool:
    """Return whether a setting, of one listener too, asks for security that is not there; the default does not."""
    definition = _OF_SECURITY.get(without_listener(name))
    return definition is not None and (value or None) != (definition.default or None)


def _unknown(name: str, origin: str) -> str:
    """Return where a setting that does not exist was written, its name once, and the one that may have been meant."""
    from difflib import get_close_matches

    from controller.configs.topic import BROKER_SYNONYMS

    # One of topics is of brokers by another name.
    meant = BROKER_SYNONYMS.get(name) or get_close_matches(name, BROKER_CONFIGS, n=1, cutoff=0.8)
    place = origin if origin.endswith(f" {name}") else f"{origin}: {name}"
    return f"{place} (did you mean {meant[0]}?)" if meant else place
