"""Logger levels, read and changed at run time (KIP-412; Kafka: `LoggingController`).

Levels have the names of Kafka's tools: TRACE, DEBUG, INFO, WARN, ERROR and FATAL. `root` is the parent of all other
loggers; a logger without a level of its own has its parent's. Changes last until the process ends.
"""

import logging
from collections.abc import Mapping

ROOT = "root"

_LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}

LEVEL_NAMES = tuple(sorted(_LEVELS))


def levels() -> Mapping[str, str]:
    """Return the effective level of every logger, by logger name."""
    return {name: _name(_logger(name).getEffectiveLevel()) for name in (ROOT, *sorted(_named()))}


def exists(name: str) -> bool:
    """Return whether a logger of that name exists."""
    return name == ROOT or name in _named()


def set_level(name: str, level: str | None) -> None:
    """Set the level of a logger to one of the `LEVEL_NAMES`; None resets it to its parent's."""
    _logger(name).setLevel(logging.NOTSET if level is None else _LEVELS[level])


def _named() -> set[str]:
    return {name for name, found in logging.root.manager.loggerDict.items() if isinstance(found, logging.Logger)}


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _name(level: int) -> str:
    """Return the name of the highest level that is not above `level`."""
    return max((number, name) for name, number in _LEVELS.items() if number <= max(level, _LEVELS["TRACE"]))[1]
