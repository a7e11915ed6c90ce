"""All access control entries of the cluster as immutable values, by id and by pattern (Kafka: `AclsImage`).

The entries of a pattern are grouped by principal: a decision reads those of the principal and of `User:*` only, so
ten thousand entries for one topic do not slow it down.

Literal patterns are found by name. Prefixed patterns are sorted; each knows its *parent*, the longest other prefix that
it begins with. All prefixes of a name sort before the name, and nothing sorts between the longest of them and the name
but patterns that begin with it. So the last pattern that does not sort after the name, its parent, the parent's parent
and so on contain all of them; a chain is as long as patterns are nested:

    patterns   a   app   app-b   app-c   b          name       chain            prefixes of the name
    parents    -   a     app     app     -          app-cart   app-c, app, a    app-c, app, a
                                                    app-a      app, a           app, a
                                                    apple      app-c, app, a    app, a
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeAlias

from controller.acls.acl import WILDCARD, Acl, AclResourceType, PatternType
from controller.acls.acl_filter import AclFilter
from protocol.errors import InvariantError

PatternAcls: TypeAlias = "Mapping[str, Mapping[Acl, bytes]]"
"""The entries of one pattern, by principal, with their ids."""

_NO_PATTERN: PatternAcls = {}
_NO_PARENT = -1
_LITERAL, _PREFIXED = int(PatternType.LITERAL), int(PatternType.PREFIXED)


class AclPattern(NamedTuple):
    """The resources that an entry is about; enums are numbers (Kafka: `ResourcePattern`)."""

    resource_type: int
    pattern_type: int
    name: str


# As `AclPattern(...)`, but without a call of a Python function.
_pattern = partial(tuple.__new__, AclPattern)


class _Prefixes(NamedTuple):
    """The sorted prefixed patterns of one resource type, and the position of each one's parent."""

    names: Sequence[str]
    parents: Sequence[int]


class AclsImage:
    """The entries; equal if their ids and contents are."""

    __slots__ = ("_by_pattern", "_prefixes", "_principals", "by_id")

    def __init__(
        self,
        by_id: Mapping[bytes, Acl] | None = None,
        by_pattern: Mapping[AclPattern, PatternAcls] | None = None,
    ) -> None:
        """Take the entries by id and by pattern."""
        self.by_id: Mapping[bytes, Acl] = by_id or {}
        self._by_pattern: Mapping[AclPattern, PatternAcls] = by_pattern or {}
        # Computed when first needed.
        self._prefixes: dict[int, _Prefixes] | None = None
        self._principals: dict[str, list[AclPattern]] | None = None

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.by_id)

    def __eq__(self, other: object) -> bool:
        """Return whether the other image has the same entries with the same ids."""
        return isinstance(other, AclsImage) and self.by_id == other.by_id

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, acl: object) -> bool:
        """Return whether there is such an entry."""
        return isinstance(acl, Acl) and acl in self.of(pattern_of(acl)).get(acl.principal, ())

    def of(self, pattern: AclPattern) -> PatternAcls:
        """Return the entries of a pattern."""
        return self._by_pattern.get(pattern, _NO_PATTERN)

    def patterns(self, principal: str) -> Sequence[AclPattern]:
        """Return the patterns that have entries for a principal."""
        if self._principals is None:
            self._principals = {}
            for pattern, entries in self._by_pattern.items():
                for name in entries:
                    self._principals.setdefault(name, []).append(pattern)
        return self._principals.get(principal, ())

    def covering(self, resource_type: int, name: str) -> list[PatternAcls]:
        """Return the entries of each pattern that covers a resource."""
        by_pattern = self._by_pattern
        found: list[PatternAcls] = []
        for literal in (name, WILDCARD) if name != WILDCARD else (name,):
            entries = by_pattern.get(_pattern((resource_type, _LITERAL, literal)))
            if entries is not None:
                found.append(entries)
        if self._prefixes is None:
            self._prefixes = _prefixes_of(by_pattern)
        prefixes = self._prefixes.get(resource_type)
        if prefixes is not None:
            names, parents = prefixes
            at = bisect_right(names, name) - 1
            while at != _NO_PARENT:
                if name.startswith(names[at]):
                    found.append(by_pattern[_pattern((resource_type, _PREFIXED, names[at]))])
                at = parents[at]
        return found

    def matching(self, wanted: AclFilter) -> list[tuple[bytes, Acl]]:
        """Return the ids and entries that match a filter."""
        return [(acl_id, acl) for acl, acl_id in self._candidates(wanted) if wanted.matches(acl)]

    def _candidates(self, wanted: AclFilter) -> Iterator[tuple[Acl, bytes]]:
        """Yield the entries with their ids among which those that match are."""
        resource_type, name, principal = wanted.resource_type, wanted.resource_name, wanted.principal
        if name is not None and resource_type != AclResourceType.ANY and wanted.pattern_type in (_LITERAL, _PREFIXED):
            found: Iterable[PatternAcls] = [self.of(AclPattern(resource_type, wanted.pattern_type, name))]
        elif principal is not None:
            found = [self._by_pattern[pattern] for pattern in self.patterns(principal)]
        else:
            found = self._by_pattern.values()
        for entries in found:
            chosen = entries.values() if principal is None else [entries[principal]] if principal in entries else ()
            yield from chain.from_iterable(of_principal.items() for of_principal in chosen)

    def change(self) -> AclsBuilder:
        """Return a builder of changes to this image."""
        return AclsBuilder(self.by_id, self._by_pattern)


class AclsBuilder:
    """Changes to an image; each dictionary is copied at most once, as by `controller.image_builder`."""

    def __init__(self, by_id: Mapping[bytes, Acl], by_pattern: Mapping[AclPattern, PatternAcls]) -> None:
        """Begin with the parts of an image."""
        self._by_id, self._by_pattern = dict(by_id), dict(by_pattern)
        self._copied: dict[AclPattern, dict[str, Mapping[Acl, bytes]]] = {}
        self._entries: dict[tuple[AclPattern, str], dict[Acl, bytes]] = {}

    def add(self, acl_id: bytes, acl: Acl) -> None:
        """Add an entry; InvariantError if there is one with this id, or an equal one."""
        entries = self._entries_of(acl)
        if acl_id in self._by_id or acl in entries:
            raise InvariantError(f"the metadata log adds ACL {acl_id.hex()} twice")
        self._by_id[acl_id] = acl
        entries[acl] = acl_id

    def remove(self, acl_id: bytes) -> None:
        """Remove an entry; InvariantError if there is none with this id."""
        acl = self._by_id.pop(acl_id, None)
        if acl is None:
            raise InvariantError(f"the metadata log removes ACL {acl_id.hex()}, which does not exist")
        del self._entries_of(acl)[acl]

    def build(self) -> AclsImage:
        """Return the image with all changes; the builder must not be used afterwards."""
        for (pattern, principal), entries in self._entries.items():
            if not entries:
                del self._copied[pattern][principal]
        for pattern, of_pattern in self._copied.items():
            if not of_pattern:
                del self._by_pattern[pattern]
        return AclsImage(self._by_id, self._by_pattern)

    def _entries_of(self, acl: Acl) -> dict[Acl, bytes]:
        """Return the entries of a pattern for a principal, those of `acl`: a dictionary that may be changed."""
        pattern = pattern_of(acl)
        entries = self._entries.get((pattern, acl.principal))
        if entries is None:
            of_pattern = self._copied.get(pattern)
            if of_pattern is None:
                of_pattern = self._copied[pattern] = dict(self._by_pattern.get(pattern, _NO_PATTERN))
                self._by_pattern[pattern] = of_pattern
            entries = dict(of_pattern.get(acl.principal, ()))
            of_pattern[acl.principal] = self._entries[pattern, acl.principal] = entries
        return entries


def pattern_of(acl: Acl) -> AclPattern:
    """Return the pattern of an entry."""
    return AclPattern(acl.resource_type, acl.pattern_type, acl.resource_name)


def _prefixes_of(patterns: Iterable[AclPattern]) -> dict[int, _Prefixes]:
    names: dict[int, list[str]] = {}
    for pattern in patterns:
        if pattern.pattern_type == _PREFIXED:
            names.setdefault(pattern.resource_type, []).append(pattern.name)
    return {resource_type: _with_parents(sorted(found)) for resource_type, found in names.items()}


def _with_parents(names: Sequence[str]) -> _Prefixes:
    parents: list[int] = []
    for at, name in enumerate(names):
        parent = at - 1
        while parent != _NO_PARENT and not name.startswith(names[parent]):
            parent = parents[parent]
        parents.append(parent)
    return _Prefixes(names, parents)
