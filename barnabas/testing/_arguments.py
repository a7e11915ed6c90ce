"""Checks of arguments, whose errors name the argument, what it is, and what it has to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from barnabas._arguments import did_you_mean as most_similar


def wrong_type(name: str, value: object, needed: str) -> TypeError:
    """Return the error for an argument of a wrong type."""
    return TypeError(f"{name}={value!r}: it has to be {needed}, not {type(value).__name__}")


def whole_number(name: str, value: Any) -> int:
    """Return a whole number; TypeError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(name, value, "a whole number")
    return value


def text(name: str, value: Any) -> str:
    """Return a text; TypeError for anything else."""
    if not isinstance(value, str):
        raise wrong_type(name, value, "a text")
    return value


def number(name: str, value: Any) -> float:
    """Return a number; TypeError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(name, value, "a number")
    return value


def mapping(name: str, value: Any) -> dict[str, Any]:
    """Return a copy of a mapping, empty for None; TypeError for anything else."""
    if value is not None and not isinstance(value, Mapping):
        raise wrong_type(name, value, "a dict")
    return dict(value or {})


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return "; did you mean X?" for the known word closest to `word`, or the list of the known ones."""
    names = list(known)
    return most_similar(str(word), names) or f"; there are: {', '.join(names)}"
