"""What is said once and not with every request: a bounded memory of what has been said."""

from __future__ import annotations

_REMEMBERED = 1000


class SaidOnce:
    """The keys that something has been said of; after `limit` of them nothing new is said any more."""

    __slots__ = ("_keys", "_limit")

    def __init__(self, limit: int = _REMEMBERED) -> None:
        self._keys: set[str] = set()
        self._limit = limit

    def is_new(self, key: str) -> bool:
        """Tell whether it is time to say something of `key`, which is only ever the first time."""
        if key in self._keys or len(self._keys) >= self._limit:
            return False
        self._keys.add(key)
        return True
