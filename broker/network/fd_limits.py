"""How many files the process may have open, and how many of those clients may use up with their connections.

The soft limit of many systems, 1,024, is for programs of old; the hard one is raised to without asking anybody. Logs
take from the same store: a log whose segment cannot be opened refuses its records, so clients are left at most half
of it, or all but a reserve that is enough for some thousand logs that are in use at a time (`storage.open_files`).
"""

from __future__ import annotations

import resource
from contextlib import suppress

_RESERVE = 10_000
# Where the hard limit is no limit, or none that the kernel would grant (macOS).
_ENOUGH = 1 << 20


def raise_limit() -> int:
    """Let the process open as many files as it may; return how many that is."""
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
    """Return how many connections to accept when `limit` files may be open."""
    return limit - min(limit // 2, _RESERVE)


def segments_within(limit: int) -> int:
    """Return how many segments may have their file open then: most of what clients are not left."""
    return max((limit - connections_within(limit)) * 3 // 4, 1)
