"""What clients used, by key: idle entries are dropped, so that the memory is bounded by the clients that are active."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_FEWEST_SWEPT = 100

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class UsageTable(Generic[K, V]):
    """Entries by key. The idle ones are dropped each time that the number of entries has doubled."""

    __slots__ = ("_entries", "_is_idle", "_sweep_at")

    def __init__(self, is_idle: Callable[[V, float], bool]) -> None:
        """`is_idle` returns whether an entry has nothing at a time in ms that a new one does not have."""
        self._is_idle = is_idle
        self._entries: dict[K, V] = {}
        self._sweep_at = _FEWEST_SWEPT

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the entry of a key; None if there is none."""
        return self._entries.get(key)

    def add(self, key: K, entry: V, now_ms: float) -> V:
        """Keep the first entry of a key, and return it."""
        if len(self._entries) >= self._sweep_at:
            self._entries = {kept: one for kept, one in self._entries.items() if not self._is_idle(one, now_ms)}
            self._sweep_at = max(2 * len(self._entries), _FEWEST_SWEPT)
        self._entries[key] = entry
        return entry

    def active(self, now_ms: float) -> list[tuple[K, V]]:
        """Return the entries that are not idle: a list, since clients may come while it is read."""
        return [(key, entry) for key, entry in self._entries.items() if not self._is_idle(entry, now_ms)]
