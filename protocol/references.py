"""Whether a list holds the only reference to an object, by CPython's reference counts.

The counts are exact only in CPython with the GIL. A free-threaded build counts the references of other threads
separately, and other interpreters have no counts: there `EXACT` is false, and so is every result.
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


_ALONE = _references([bytearray()], 0)  # the count of a single reference depends on the Python version
