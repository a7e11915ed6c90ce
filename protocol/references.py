"""Whether anything refers to an object of a list besides the list, by CPython's reference counts.

The counts are exact only in CPython with a global interpreter lock. A free-threaded build counts the references of
other threads apart, and other interpreters count none: there, nothing is ever known to be alone (`EXACT`).
"""

import sys
from collections.abc import Callable, Sequence

EXACT = sys.implementation.name == "cpython" and "t" not in sys.abiflags

_count: Callable[[object], int] = getattr(sys, "getrefcount", lambda _: 0)


def is_alone(objects: Sequence[object], number: int) -> bool:
    """Return whether the list holds the only reference to its object at `number`."""
    return EXACT and _references(objects, number) == _ALONE


def _references(objects: Sequence[object], number: int) -> int:
    return _count(objects[number])


_ALONE = _references([bytearray()], 0)  # how many references are counted differs from version to version
