"""Warnings, logged once when a node starts: settings without effect, or with another effect than Kafka's default."""

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
    """Log unknown settings, security settings without effect, and a replication factor above 1 on a single node."""
    if settings.unknown:
        names = "; ".join(_unknown(name, origin) for name, origin in settings.unknown.items())
        _log.warning("Ignoring unknown settings: %s", names)
    if idle := sorted(name for name, value in settings.explicit.items() if _protects_nothing(name, value)):
        _log.warning(
            "Security settings without effect: %s. Any client can connect and do everything, without authentication "
            "or encryption",
            ", ".join(idle),
        )
    if "group.initial.rebalance.delay.ms" in settings.explicit and not settings["group.initial.rebalance.delay.ms"]:
        _log.debug(
            "group.initial.rebalance.delay.ms=0, as in the server.properties that Apache Kafka comes with: a new group "
            "does not wait for more members (default: 3000)"
        )
    replicas = settings["default.replication.factor"]
    if replicas > 1 and not settings.voters:
        _log.warning(
            "default.replication.factor=%d, but there is one broker: topics need an explicit replication factor of 1",
            replicas,
        )


def _protects_nothing(name: str, value: str) -> bool:
    """Return whether a setting, also of one listener, requests security that is not implemented."""
    definition = _OF_SECURITY.get(without_listener(name))
    return definition is not None and (value or None) != (definition.default or None)


def _unknown(name: str, origin: str) -> str:
    """Return the origin and name of an unknown setting, and the most similar known one."""
    from difflib import get_close_matches

    from controller.configs.topic import BROKER_SYNONYMS

    # A topic setting may have a synonym among the broker settings.
    meant = BROKER_SYNONYMS.get(name) or get_close_matches(name, BROKER_CONFIGS, n=1, cutoff=0.8)
    place = origin if origin.endswith(f" {name}") else f"{origin}: {name}"
    return f"{place} (did you mean {meant[0]}?)" if meant else place
