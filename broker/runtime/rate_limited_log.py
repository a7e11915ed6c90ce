"""Rate limits for log messages: once per key, or once per interval and key, in bounded memory."""

_REMEMBERED = 1000


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

    __slots__ = ("_interval_s", "_logged")

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
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
        self._logged[key] = now, 0
        return times + events
