"""The levels of the process's loggers, told and altered while it runs (KIP-412).

Levels have the names of Kafka's tools: TRACE, DEBUG, INFO, WARN, ERROR and FATAL. `root` is the parent of all others;
one that has no level of its own has its parent's. Alterations last until the process ends.
"""

from __future__ import annotations

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
    """Return the level of every logger."""
    return {name: _name(_logger(name).getEffectiveLevel()) for name in (ROOT, *sorted(_named()))}


def exists(name: str) -> bool:
    """Say whether there is such a logger."""
    return name == ROOT or name in _named()


def set_level(name: str, level: str | None) -> None:
    """Give a logger one of the `LEVEL_NAMES`, or (None) that of its parent again."""
    _logger(name).setLevel(logging.NOTSET if level is None else _LEVELS[level])


def _named() -> set[str]:
    return {name for name, found in logging.root.manager.loggerDict.items() if isinstance(found, logging.Logger)}


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _name(level: int) -> str:
    """Return the name of the largest level up to `level`."""
    return max((number, name) for name, number in _LEVELS.items() if number <= max(level, _LEVELS["TRACE"]))[1]
