"""Sets of resource names, given by patterns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from controller.acls.acl import WILDCARD, PatternType


class NameSet:
    """The names that at least one of some patterns covers.

    Prefixes that begin with another one of the set are left out: a name then has at most one of them as its prefix, and
    that is the last one that does not sort after the name.
    """

    __slots__ = ("everything", "literals", "prefixes")

    def __init__(self, patterns: Iterable[tuple[int, str]]) -> None:
        """Take patterns as (pattern type, name)."""
        literals: set[str] = set()
        prefixes: list[str] = []
        for pattern_type, name in patterns:
            if pattern_type == PatternType.PREFIXED:
                prefixes.append(name)
            else:
                literals.add(name)
        self.everything = WILDCARD in literals
        self.literals = frozenset(literals)
        self.prefixes: list[str] = []
        for prefix in sorted(prefixes):
            if not (self.prefixes and prefix.startswith(self.prefixes[-1])):
                self.prefixes.append(prefix)

    def covers(self, name: str) -> bool:
        """Return whether a pattern covers the name."""
        return self.everything or name in self.literals or self.covers_by_prefix(name)

    def covers_by_prefix(self, name: str) -> bool:
        """Return whether a prefixed pattern covers the name."""
        at = bisect_right(self.prefixes, name)
        return at > 0 and name.startswith(self.prefixes[at - 1])
