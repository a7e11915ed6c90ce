"""Names of listener settings: `listener.name.external.max.connections` is the `max.connections` of EXTERNAL.

The form is Kafka's, with the listener's name in lower case (KIP-103). Some SASL settings have a mechanism between the
two: `listener.name.external.scram-sha-256.sasl.jaas.config`.
"""

from __future__ import annotations

_PREFIX = "listener.name."
_MECHANISM_SETTINGS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)


def listener_prefix(listener: str) -> str:
    """Return the prefix of a listener's own settings."""
    return f"{_PREFIX}{listener.lower()}."


def is_listener_setting(name: str) -> bool:
    """Return whether a setting belongs to a single listener."""
    return name.startswith(_PREFIX)


def listener_of(name: str) -> str:
    """Return the listener of a single listener's setting, as it is written."""
    return name.removeprefix(_PREFIX).partition(".")[0]


def without_listener(name: str) -> str:
    """Return the setting's name without listener and mechanism; `name` itself if it has no listener."""
    if not is_listener_setting(name):
        return name
    _, _, rest = name.removeprefix(_PREFIX).partition(".")
    return next((setting for setting in _MECHANISM_SETTINGS if rest.endswith(setting)), rest)
