"""Rate limits for log messages: once per key, or once per interval and key, in bounded memory."""

import sys

_REMEMBERED = 1000
MOST_REPORTS = 100
"""A limit for keys that clients choose, per interval."""


class LogOnce:
    """One log line per key, for at most `limit` keys.

    Clients choose the keys, of any length, so only the hash is kept: of two keys with equal hashes, one is logged.
    """

    __slots__ = ("_hashes", "_limit")

    def __init__(self, limit: int = _REMEMBERED) -> None:
        self._hashes: set[int] = set()
        self._limit = limit

    def should_log(self, key: str) -> bool:
        """Return True the first time that `key` is seen. After `limit` keys, return False for new ones."""
        if hash(key) in self._hashes or len(self._hashes) >= self._limit:
            return False
        self._hashes.add(hash(key))
        return True


class RateLimitedCounter:
    """Counts events per key between two log lines. Drops all counts when there are too many keys."""

    __slots__ = ("_began_at", "_interval_s", "_logged", "_most", "_reports")

    def __init__(self, interval_s: float, most: int = sys.maxsize) -> None:
        """Report no more than `most` keys in an interval; the others are only counted until a later one."""
        self._interval_s = interval_s
        self._most = most
        self._began_at, self._reports = float("-inf"), 0
        self._logged: dict[str, tuple[float, int]] = {}

    def add(self, key: str, now: float, events: int = 1) -> int:
        """Count events. Return the number of events since the last report if `interval_s` has passed, else 0.

        `now` is in seconds.
        """
        logged_at, times = self._logged.get(key, (float("-inf"), 0))
        if now - logged_at < self._interval_s:
            self._logged[key] = logged_at, times + events
            return 0
        if len(self._logged) >= _REMEMBERED:
            self._logged.clear()
        if now - self._began_at >= self._interval_s:
            self._began_at, self._reports = now, 0
        if self._reports >= self._most:
            self._logged[key] = float("-inf"), times + events
            return 0
        self._reports += 1
        self._logged[key] = now, 0
        return times + events
