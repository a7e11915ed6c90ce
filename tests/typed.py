"""Assertions that narrow a declared type to what a test expects."""

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """Return `value`, which must not be None."""
    assert value is not None
    return value


def instance(kind: type[T], value: object) -> T:
    """Return `value`, which must be of `kind`."""
    assert isinstance(value, kind)
    return value
