"""What clients used, by key: idle entries are dropped, and the active ones are limited, as clients name themselves."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_FEWEST_SWEPT = 100
_FULL = 100_000
_MS_BETWEEN_SWEEPS_IF_FULL = 1000

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class UsageTable(Generic[K, V]):
    """Entries by key. The idle ones are dropped each time that the number of entries has doubled.

    Keys that come while the table is full share one entry.
    """

    __slots__ = ("_entries", "_full", "_is_idle", "_shared", "_sweep_at", "_swept_ms")

    def __init__(self, is_idle: Callable[[V, float], bool], full: int = _FULL) -> None:
        """`is_idle` returns whether an entry has nothing at a time in ms that a new one does not have."""
        self._is_idle = is_idle
        self._full = full
        self._shared: V | None = None
        self._swept_ms = float("-inf")
        self._entries: dict[K, V] = {}
        self._sweep_at = _FEWEST_SWEPT

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the entry of a key; None if there is none."""
        return self._entries.get(key)

    def add(self, key: K, entry: V, now_ms: float) -> V:
        """Keep the first entry of a key, and return it; the shared one if the table is full."""
        size = len(self._entries)
        if size >= self._sweep_at and (size < self._full or now_ms - self._swept_ms >= _MS_BETWEEN_SWEEPS_IF_FULL):
            self._swept_ms = now_ms
            self._entries = {kept: one for kept, one in self._entries.items() if not self._is_idle(one, now_ms)}
            self._sweep_at = min(max(2 * len(self._entries), _FEWEST_SWEPT), self._full)
        if len(self._entries) >= self._full:
            if self._shared is None or self._is_idle(self._shared, now_ms):
                self._shared = entry
            return self._shared
        self._entries[key] = entry
        return entry

    def active(self, now_ms: float) -> list[tuple[K, V]]:
        """Return the entries that are not idle: a list, since clients may come while it is read."""
        return [(key, entry) for key, entry in self._entries.items() if not self._is_idle(entry, now_ms)]
