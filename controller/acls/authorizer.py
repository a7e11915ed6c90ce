"""Authorization by access control lists (KIP-11, KIP-290, KIP-801; Kafka: `StandardAuthorizer`).

    super user                                          allowed
    an entry that covers the resource denies            denied
    an entry that covers the resource allows            allowed
    there are entries that cover it, but none matches   denied
    there is none                                       allowed if `allow.everyone.if.no.acl.found`, else denied

An entry matches if its principal is the client's or `User:*`, its host the client's address or `*`, and its operation
the requested one or ALL. Of entries that allow, READ, WRITE, DELETE and ALTER include DESCRIBE, and ALTER_CONFIGS
includes DESCRIBE_CONFIGS; of entries that deny, nothing includes another.

The entries of a principal are compiled, by operation, type of resource and host, to the names that they deny and allow;
that stays valid until the entries of this principal change. Decisions about a client are cached until its entries, or
those of `User:*`, change; with `allow.everyone.if.no.acl.found` until any entry changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from controller.acls.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclOperation,
    AclPermissionType,
    canonical_host,
)
from controller.acls.acls_image import AclsImage, PrincipalAcls
from controller.acls.names import NameSet

_INCLUDED_IN: Mapping[int, tuple[int, ...]] = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
_ALL = int(AclOperation.ALL)
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


class _AclRules(NamedTuple):
    """The names that entries of one principal and host deny and allow one operation on.

    `allowed_by_name`: without operations that include the requested one.
    """

    denied: NameSet
    allowed: NameSet
    allowed_by_name: NameSet


class _Compiled(NamedTuple):
    """The entries of a principal, and their rules by operation and resource type, then by host."""

    entries: PrincipalAcls
    rules: dict[tuple[int, int], Mapping[str, _AclRules]]


class Decisions(dict[str, bool]):
    """Whether one principal from one host may do one operation, by name of the resource; looked up by `[]` only."""

    __slots__ = ("_authorizer", "resource_type", "rules")

    def __init__(self, authorizer: StandardAuthorizer, resource_type: int, rules: Sequence[_AclRules]) -> None:
        """Begin without decisions; `rules` are those of a client that is no super user."""
        super().__init__()
        self._authorizer = authorizer
        self.resource_type = resource_type
        self.rules = rules

    def __missing__(self, name: str) -> bool:
        """Decide about a resource, and keep the decision."""
        decision = self._decide(name)
        if len(name) <= _MAX_CACHED_CHARACTERS:
            self._authorizer.make_room()
            self[name] = decision
        return decision

    def _decide(self, name: str) -> bool:
        for rules in self.rules:
            if rules.denied.covers(name):
                return False
        for rules in self.rules:
            if rules.allowed.covers(name):
                return True
        return self._authorizer.allows_without_acls(self.resource_type, name)


class _AllowAll(dict[str, bool]):
    """The decisions about a super user."""

    def __missing__(self, _name: str) -> bool:
        """Allow everything."""
        return True


_ALLOW_ALL = _AllowAll()


class StandardAuthorizer:
    """The rules of authorization, applied to the current entries."""

    def __init__(self, super_users: Collection[str], *, allow_if_no_acl: bool) -> None:
        """Begin without entries. `allow_if_no_acl`: allow what no entry is about."""
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._acls = AclsImage()
        self._compiled: dict[str, _Compiled] = {}
        self._patterns: dict[int, NameSet] = {}
        self._tables: dict[tuple[str, str, int, int], Decisions] = {}
        self._any: dict[tuple[str, str, int, int], bool] = {}
        self._decisions = 0

    @property
    def acls(self) -> AclsImage:
        """Return the current entries."""
        return self._acls

    def load(self, acls: AclsImage) -> None:
        """Replace the entries."""
        if acls is self._acls:
            return
        before, self._acls = self._acls, acls
        self._compiled = {
            principal: compiled
            for principal, compiled in self._compiled.items()
            if compiled.entries is acls.by_principal.get(principal)
        }
        self._patterns.clear()
        if self._allow_if_no_acl or _differ(before, acls, WILDCARD_PRINCIPAL):
            self._forget()
            return
        for key in [key for key in self._tables if _differ(before, acls, key[0])]:
            self._decisions -= len(self._tables[key])
            self._tables.pop(key).clear()
        self._any = {key: allowed for key, allowed in self._any.items() if not _differ(before, acls, key[0])}

    def is_super_user(self, principal: str) -> bool:
        """Return whether a principal may do everything."""
        return principal in self._super_users

    def decisions(self, principal: str, host: str, operation: int, resource_type: int) -> Mapping[str, bool]:
        """Return whether a principal from a host may do an operation on resources of a type, by name.

        The table, to be used with `[]`, is valid until the entries change. `host` is an address.
        """
        key = (principal, host, operation, resource_type)
        found = self._tables.get(key)
        if found is None:
            if principal in self._super_users:
                return _ALLOW_ALL
            if len(self._tables) >= _MAX_TABLES:
                self._forget()
            rules = self._rules(principal, host, operation, resource_type)
            found = self._tables[key] = Decisions(self, resource_type, rules)
        return found

    def authorize(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Return whether a principal from a host may do an operation on a resource."""
        return self.decisions(principal, host, operation, resource_type)[name]

    def authorize_by_resource_type(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Return whether a principal from a host may do an operation on at least one resource of a type (KIP-679)."""
        if self.authorize(principal, host, operation, resource_type, _ANY_RESOURCE):
            return True
        key = (principal, host, operation, resource_type)
        found = self._any.get(key)
        if found is None:
            if len(self._any) >= _MAX_TABLES:
                self._any.clear()
            found = self._any[key] = _is_any_allowed(self._rules(principal, host, operation, resource_type))
        return found

    def allows_without_acls(self, resource_type: int, name: str) -> bool:
        """Return whether a resource is allowed to everyone because no entry is about it."""
        if not self._allow_if_no_acl:
            return False
        patterns = self._patterns.get(resource_type)
        if patterns is None:
            patterns = self._patterns[resource_type] = NameSet(
                (acl.pattern_type, acl.resource_name)
                for acl in self._acls.by_id.values()
                if acl.resource_type == resource_type
            )
        return not patterns.covers(name)

    def make_room(self) -> None:
        """Count a decision to be kept; forget all earlier ones if there are too many."""
        if self._decisions >= _MAX_DECISIONS:
            self._forget()
        self._decisions += 1

    def _forget(self) -> None:
        for table in self._tables.values():
            table.clear()
        self._tables.clear()
        self._any.clear()
        self._decisions = 0

    def _rules(self, principal: str, host: str, operation: int, resource_type: int) -> list[_AclRules]:
        """Return the rules of the entries that are about a client."""
        found = []
        for name in dict.fromkeys((principal, WILDCARD_PRINCIPAL)):
            compiled = self._compiled.get(name)
            if compiled is None:
                entries = self._acls.by_principal.get(name)
                if entries is None:
                    continue
                compiled = self._compiled[name] = _Compiled(entries, {})
            by_host = compiled.rules.get((operation, resource_type))
            if by_host is None:
                by_host = compiled.rules[operation, resource_type] = _compile(
                    compiled.entries, operation, resource_type
                )
            found += [by_host[each] for each in (WILDCARD, canonical_host(host)) if each in by_host]
        return found


def _differ(before: AclsImage, after: AclsImage, principal: str) -> bool:
    return before.by_principal.get(principal) is not after.by_principal.get(principal)


def _compile(entries: PrincipalAcls, operation: int, resource_type: int) -> dict[str, _AclRules]:
    """Return the rules of a principal's entries for one operation and type of resource, by canonical host."""
    included_in = _INCLUDED_IN.get(operation, ())
    by_host: dict[str, tuple[list[tuple[int, str]], ...]] = {}
    for acl in entries:
        by_name = acl.operation in (_ALL, operation)
        allows = acl.permission_type == _ALLOW
        if acl.resource_type != resource_type or not (by_name or (allows and acl.operation in included_in)):
            continue
        denied, allowed, allowed_by_name = by_host.setdefault(canonical_host(acl.host), ([], [], []))
        pattern = acl.pattern_type, acl.resource_name
        if not allows:
            denied.append(pattern)
            continue
        allowed.append(pattern)
        if by_name:
            allowed_by_name.append(pattern)
    return {host: _AclRules(*map(NameSet, patterns)) for host, patterns in by_host.items()}


def _is_any_allowed(rules: Collection[_AclRules]) -> bool:
    """Return whether entries allow something that no other denies for all names of the pattern.

    As in Kafka, an operation is not included in others here, and a pattern that allows all names counts whatever is
    denied, unless all names are.
    """
    denied = [each.denied for each in rules]
    allowed = [each.allowed_by_name for each in rules]
    if any(names.everything for names in denied):
        return False
    if any(names.everything for names in allowed):
        return True
    literals = chain.from_iterable(names.literals for names in allowed)
    if any(not any(names.covers(name) for names in denied) for name in literals):
        return True
    # A pattern whose shorter prefix is allowed, too, is denied only if that is: it need not be looked at.
    prefixes = chain.from_iterable(names.prefixes for names in allowed)
    return any(not any(names.covers_by_prefix(prefix) for names in denied) for prefix in prefixes)
