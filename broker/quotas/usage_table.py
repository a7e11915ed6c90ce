"""What clients used, by key: idle entries are dropped, and active ones are limited, because clients name themselves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_FEWEST_SWEPT = 100
_MAX_ENTRIES = 100_000
_MS_BETWEEN_SWEEPS_IF_FULL = 1000

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class UsageTable(Generic[K, V]):
    """Entries by key. The idle ones are dropped each time that the number of entries has doubled.

    A full table drops the entry that was not used for the longest time. Its client begins anew, which a client that
    fills the table with names does with each of them anyway.
    """

    __slots__ = ("_entries", "_is_idle", "_max_entries", "_sweep_at", "_swept_ms")

    def __init__(self, is_idle: Callable[[V, float], bool], max_entries: int = _MAX_ENTRIES) -> None:
        """`is_idle` returns whether an entry has nothing at a time in ms that a new one does not have."""
        self._is_idle = is_idle
        self._max_entries = max_entries
        self._entries: OrderedDict[K, V] = OrderedDict()  # the least recently used first
        self._sweep_at = _FEWEST_SWEPT
        self._swept_ms = float("-inf")

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the entry of a key; None if there is none."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def add(self, key: K, entry: V, now_ms: float) -> V:
        """Keep the first entry of a key, and return it."""
        size = len(self._entries)
        is_full = size >= self._max_entries
        if size >= self._sweep_at and (not is_full or now_ms - self._swept_ms >= _MS_BETWEEN_SWEEPS_IF_FULL):
            self._swept_ms = now_ms
            self._entries = OrderedDict(
                (kept, one) for kept, one in self._entries.items() if not self._is_idle(one, now_ms)
            )
            self._sweep_at = min(max(2 * len(self._entries), _FEWEST_SWEPT), self._max_entries)
        if len(self._entries) >= self._max_entries:
            self._entries.popitem(last=False)
        self._entries[key] = entry
        return entry

    def active(self, now_ms: float) -> list[tuple[K, V]]:
        """Return the entries that are not idle: a list, since clients may come while it is read."""
        return [(key, entry) for key, entry in self._entries.items() if not self._is_idle(entry, now_ms)]
