"""File descriptor limits: raise RLIMIT_NOFILE, and divide it between connections and segment files.

The soft limit is raised to the hard one; the usual soft limit of 1,024 is too low. A log whose segment cannot be opened
refuses records, so connections get the limit minus a reserve of min(half, `_RESERVE`). `_RESERVE` is enough for some
thousand logs in use at a time (`storage.log.open_files`).
"""

from __future__ import annotations

import resource
from contextlib import suppress

_RESERVE = 10_000
# Used if the hard limit is infinite: the kernel may not grant that (macOS).
_ENOUGH = 1 << 20


def raise_limit() -> int:
    """Raise the soft limit of open files to the hard one; return the resulting limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _ENOUGH
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return soft


def connections_within(limit: int) -> int:
    """Return how many connections to accept at a limit of `limit` open files."""
    return limit - min(limit // 2, _RESERVE)


def segments_within(limit: int) -> int:
    """Return how many segment files may be open at that limit: 3/4 of what connections do not use."""
    return max((limit - connections_within(limit)) * 3 // 4, 1)
