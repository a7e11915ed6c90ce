"""Checks of combinations of broker settings that are valid alone but not together.

They run when a broker starts, and before its settings are altered. Rules and messages are those of Apache Kafka's
`KafkaConfig`.
"""

from collections.abc import Callable
from typing import Any

from controller.configs.authorization_configs import check_authorization
from controller.configs.definition import ConfigConflictError
from controller.configs.group import check_within_limits

_CLEANER_BYTES = 1 << 20


def check_conflicts(value: Callable[[str], Any]) -> None:
    """Raise ConfigConflictError if a broker cannot have these settings; `value` returns each by name."""
    roll_ms, jitter_ms = value("log.roll.ms"), value("log.roll.jitter.ms")
    if roll_ms is not None and roll_ms < 1:
        raise ConfigConflictError("log.roll.ms", "log.roll.ms must be greater than or equal to 1")
    if jitter_ms is not None and jitter_ms < 0:
        raise ConfigConflictError("log.roll.jitter.ms", "log.roll.jitter.ms must be greater than or equal to 0")
    _check_retention(value)
    threads = value("log.cleaner.threads")
    if threads < 1 or value("log.cleaner.dedupe.buffer.size") // threads <= _CLEANER_BYTES:
        name = "log.cleaner.dedupe.buffer.size"
        raise ConfigConflictError(name, f"{name} must be at least 1MB per cleaner thread.")
    if value("max.connections.per.ip") == 0 and not value("max.connections.per.ip.overrides"):
        raise ConfigConflictError(
            "max.connections.per.ip",
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        )
    _check_cordoned(value)
    _check_early_start(value)
    check_authorization(value)
    check_within_limits(value, value, "group.")


def _check_retention(value: Callable[[str], Any]) -> None:
    """Refuse a retention of 0; a negative one is unlimited."""
    names = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    name = next(name for name in names if value(name) is not None)
    if value(name) == 0:
        raise ConfigConflictError(name, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1")


def _check_early_start(value: Callable[[str], Any]) -> None:
    """Refuse names in `early.start.listeners` of listeners that this node does not have."""
    known = {address.partition("://")[0].upper() for address in value("listeners")}
    known.update(name.upper() for name in value("controller.listener.names"))
    for name in value("early.start.listeners") or ():
        if name.upper() not in known:
            raise ConfigConflictError(
                "early.start.listeners",
                f"early.start.listeners contains listener {name}, but this is not contained in listeners or "
                "controller.listener.names",
            )


def _check_cordoned(value: Callable[[str], Any]) -> None:
    cordoned = value("cordoned.log.dirs")
    if "*" in cordoned:
        if len(cordoned) > 1:
            raise ConfigConflictError(
                "cordoned.log.dirs", "When cordoned.log.dirs is set to *, it must not contain other values"
            )
        return
    directories = value("log.dirs") or value("log.dir")
    missing = [name for name in cordoned if name not in directories]
    if missing:
        raise ConfigConflictError(
            "cordoned.log.dirs",
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            f"Missing entries : {', '.join(missing)}",
        )
