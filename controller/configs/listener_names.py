"""Settings of single listeners: `listener.name.external.max.connections` is the `max.connections` of EXTERNAL.

Kafka's form, with the listener's name in small letters (KIP-103). Some settings of SASL have a mechanism between the
two: `listener.name.external.scram-sha-256.sasl.jaas.config`.
"""

from __future__ import annotations

_PREFIX = "listener.name."
_OF_MECHANISMS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)


def listener_prefix(listener: str) -> str:
    """Return what the names of a listener's own settings begin with."""
    return f"{_PREFIX}{listener.lower()}."


def listeners_own(name: str) -> bool:
    """Say whether a setting is of a single listener."""
    return name.startswith(_PREFIX)


def without_listener(name: str) -> str:
    """Return the setting that is behind a listener's own; `name` itself where it is no listener's."""
    if not listeners_own(name):
        return name
    _, _, rest = name.removeprefix(_PREFIX).partition(".")
    return next((setting for setting in _OF_MECHANISMS if rest.endswith(setting)), rest)
