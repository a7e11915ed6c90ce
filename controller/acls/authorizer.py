"""Authorization by access control lists (KIP-11, KIP-290, KIP-801; Kafka: `StandardAuthorizer`).

    super user                                          allowed
    an entry that covers the resource denies            denied
    an entry that covers the resource allows            allowed
    there are entries that cover it, but none matches   denied
    there is none                                       allowed if `allow.everyone.if.no.acl.found`, else denied

An entry matches if its principal is the client's or `User:*`, its host the client's address or `*`, and its operation
the requested one or ALL. Of entries that allow, READ, WRITE, DELETE and ALTER include DESCRIBE, and ALTER_CONFIGS
includes DESCRIBE_CONFIGS; of entries that deny, nothing includes another.

Decisions are cached until the entries change, by principal, host, operation and resource type: a table of names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from controller.acls.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclOperation,
    AclPermissionType,
    PatternType,
    canonical_host,
)
from controller.acls.acls_image import AclPattern, AclsImage, PatternAcls

_INCLUDED_IN: Mapping[int, tuple[int, ...]] = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
_ALLOW = int(AclPermissionType.ALLOW)

_ANY_RESOURCE = "hardcode"
"""Kafka's name of a resource that stands for any of its type; super users may use it, and others usually not."""

_MAX_TABLES = 4096
_MAX_DECISIONS = 65_536
_MAX_CACHED_CHARACTERS = 256


class SuperUsersError(ValueError):
    """`super.users` is not a list of principals."""


def parse_super_users(text: str) -> frozenset[str]:
    """Return the principals in `super.users`, which semicolons separate; SuperUsersError if one has no type."""
    found = [name.strip() for name in text.split(";") if name.strip()]
    for name in found:
        if not all(name.partition(":")):
            raise SuperUsersError(f"{name} is not a principal: write it as type:name, such as User:{name}")
    return frozenset(found)


class _Request(NamedTuple):
    """Who wants to do what with resources of a type; `host` is canonical, the enums are numbers."""

    principal: str
    host: str
    resource_type: int
    denied_by: Collection[int]
    """The operations of entries that deny it; of entries that allow it, without those that include it."""
    allowed_by: Collection[int]


def _request(principal: str, host: str, operation: int, resource_type: int) -> _Request:
    same = (int(AclOperation.ALL), operation)
    return _Request(principal, canonical_host(host), resource_type, same, (*same, *_INCLUDED_IN.get(operation, ())))


class Decisions(dict[str, bool]):
    """Whether one principal from one host may do one operation, by name of the resource; looked up by `[]` only."""

    __slots__ = ("_authorizer", "_request")

    def __init__(self, authorizer: StandardAuthorizer, request: _Request) -> None:
        """Begin without decisions."""
        super().__init__()
        self._authorizer = authorizer
        self._request = request

    def __missing__(self, name: str) -> bool:
        """Decide about a resource, and keep the decision."""
        decision = self._authorizer.decide(self._request, name)
        if len(name) <= _MAX_CACHED_CHARACTERS:
            self._authorizer.make_room()
            self[name] = decision
        return decision


class StandardAuthorizer:
    """The rules of authorization, applied to the current entries."""

    def __init__(self, super_users: Collection[str], *, allow_if_no_acl: bool) -> None:
        """Begin without entries. `allow_if_no_acl`: allow what no entry is about."""
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._acls = AclsImage()
        self._tables: dict[tuple[str, str, int, int], Decisions] = {}
        self._any: dict[tuple[str, str, int, int], bool] = {}
        self._decisions = 0

    @property
    def acls(self) -> AclsImage:
        """Return the current entries."""
        return self._acls

    def load(self, acls: AclsImage) -> None:
        """Replace the entries."""
        if acls is not self._acls:
            self._acls = acls
            self._forget()
            self._any.clear()

    def is_super_user(self, principal: str) -> bool:
        """Return whether a principal may do everything."""
        return principal in self._super_users

    def decisions(self, principal: str, host: str, operation: int, resource_type: int) -> Decisions:
        """Return whether a principal from a host may do an operation on resources of a type, by name.

        The table is valid until the entries change. `host` is an address.
        """
        key = (principal, host, operation, resource_type)
        found = self._tables.get(key)
        if found is None:
            if len(self._tables) >= _MAX_TABLES:
                self._forget()
            request = _request(principal, host, operation, resource_type)
            found = self._tables[key] = Decisions(self, request)
        return found

    def authorize(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Return whether a principal from a host may do an operation on a resource."""
        return self.decisions(principal, host, operation, resource_type)[name]

    def authorize_by_resource_type(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Return whether a principal from a host may do an operation on at least one resource of a type (KIP-679)."""
        key = (principal, host, operation, resource_type)
        found = self._any.get(key)
        if found is None:
            if len(self._any) >= _MAX_TABLES:
                self._any.clear()
            request = _request(principal, host, operation, resource_type)
            found = self._any[key] = self.decide(request, _ANY_RESOURCE) or self._is_any_allowed(request)
        return found

    def decide(self, request: _Request, name: str) -> bool:
        """Return the decision about a resource, which is not looked up in the tables."""
        if request.principal in self._super_users:
            return True
        covering = self._acls.covering(request.resource_type, name)
        if not covering:
            return self._allow_if_no_acl
        allowed = False
        for entries in covering:
            for acl in _of_client(request, entries):
                if acl.permission_type == _ALLOW:
                    allowed = allowed or acl.operation in request.allowed_by
                elif acl.operation in request.denied_by:
                    return False
        return allowed

    def make_room(self) -> None:
        """Count a decision to be kept; forget all earlier ones if there are too many."""
        if self._decisions >= _MAX_DECISIONS:
            self._forget()
        self._decisions += 1

    def _forget(self) -> None:
        for table in self._tables.values():
            table.clear()
        self._tables.clear()
        self._decisions = 0

    def _is_any_allowed(self, request: _Request) -> bool:
        """Return whether entries allow something that no other denies for all of its names.

        As in Kafka, an operation is not included in others here, and a pattern that allows all names counts whatever is
        denied, unless all names are.
        """
        allowed: set[AclPattern] = set()
        denied: set[AclPattern] = set()
        for principal in {request.principal, WILDCARD_PRINCIPAL}:
            for pattern in self._acls.patterns(principal):
                if pattern.resource_type != request.resource_type:
                    continue
                for acl in self._acls.of(pattern)[principal]:
                    if acl.operation in request.denied_by and _is_from(request, acl):
                        (allowed if acl.permission_type == _ALLOW else denied).add(pattern)
        wildcard = AclPattern(request.resource_type, PatternType.LITERAL, WILDCARD)
        if wildcard in denied or wildcard in allowed:
            return wildcard not in denied
        prefixes = {pattern.name for pattern in denied if pattern.pattern_type == PatternType.PREFIXED}
        lengths = {len(prefix) for prefix in prefixes}
        return any(
            not (pattern.pattern_type == PatternType.LITERAL and pattern in denied)
            and not any(pattern.name[:length] in prefixes for length in lengths)
            for pattern in allowed
        )


def _of_client(request: _Request, entries: PatternAcls) -> Iterator[Acl]:
    """Yield the entries that are about the client, whatever their operation."""
    for principal in (request.principal, WILDCARD_PRINCIPAL):
        for acl in entries.get(principal, ()):
            if _is_from(request, acl):
                yield acl


def _is_from(request: _Request, acl: Acl) -> bool:
    """Return whether an entry is about the client's host."""
    return acl.host == WILDCARD or canonical_host(acl.host) == request.host
