"""What is said once, or once in a while, and not with every request: a bounded memory of what has been said."""

from __future__ import annotations

_REMEMBERED = 1000


class SaidOnce:
    """The keys that something has been said of; after `limit` of them nothing new is said any more.

    Of a key, which clients may make as long as they like, only the hash is kept: two alike cost one remark.
    """

    __slots__ = ("_hashes", "_limit")

    def __init__(self, limit: int = _REMEMBERED) -> None:
        self._hashes: set[int] = set()
        self._limit = limit

    def is_new(self, key: str) -> bool:
        """Tell whether it is time to say something of `key`, which is only ever the first time."""
        if hash(key) in self._hashes or len(self._hashes) >= self._limit:
            return False
        self._hashes.add(hash(key))
        return True


class SaidLately:
    """How often something came since it was last said, by key; with too many keys, all are forgotten."""

    __slots__ = ("_interval_s", "_said")

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._said: dict[str, tuple[float, int]] = {}

    def count(self, key: str, now: float) -> int:
        """Return how often `key` came, this time included, if it is time to say so, and 0 otherwise."""
        said_at, times = self._said.get(key, (float("-inf"), 0))
        if now - said_at < self._interval_s:
            self._said[key] = said_at, times + 1
            return 0
        if len(self._said) >= _REMEMBERED:
            self._said.clear()
        self._said[key] = now, 0
        return times + 1
