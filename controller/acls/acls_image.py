"""All access control entries of the cluster as immutable values, by id and by principal (Kafka: `AclsImage`).

A change copies the entries of one principal only, so those of all others keep their identity: what is derived from them
stays valid (`authorizer.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from controller.acls.acl import Acl
from controller.acls.acl_filter import AclFilter, NameFilter
from protocol.errors import InvariantError

PrincipalAcls: TypeAlias = "Mapping[Acl, bytes]"
"""The entries of one principal, with their ids."""

NO_ACLS: PrincipalAcls = {}


class AclsImage:
    """The entries; equal if their ids and contents are."""

    __slots__ = ("_by_name", "by_id", "by_principal")

    def __init__(
        self, by_id: Mapping[bytes, Acl] | None = None, by_principal: Mapping[str, PrincipalAcls] | None = None
    ) -> None:
        """Take the entries by id and by principal."""
        self.by_id: Mapping[bytes, Acl] = by_id or {}
        self.by_principal: Mapping[str, PrincipalAcls] = by_principal or {}
        self._by_name: dict[str, list[tuple[Acl, bytes]]] | None = None  # computed when first needed

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.by_id)

    def __eq__(self, other: object) -> bool:
        """Return whether the other image has the same entries with the same ids."""
        return isinstance(other, AclsImage) and self.by_id == other.by_id

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, acl: object) -> bool:
        """Return whether there is such an entry."""
        return isinstance(acl, Acl) and acl in self.of(acl.principal)

    def of(self, principal: str) -> PrincipalAcls:
        """Return the entries of a principal."""
        return self.by_principal.get(principal, NO_ACLS)

    def matching(self, wanted: AclFilter) -> list[tuple[bytes, Acl]]:
        """Return the ids and entries that match a filter."""
        return [(acl_id, acl) for acl, acl_id in self._candidates(wanted) if wanted.matches(acl)]

    def _candidates(self, wanted: AclFilter) -> Iterable[tuple[Acl, bytes]]:
        """Return the entries with their ids among which those that match are."""
        if wanted.principal is not None:
            return self.of(wanted.principal).items()
        if wanted.name_filter is NameFilter.EXACT:
            if self._by_name is None:
                self._by_name = {}
                for acl_id, acl in self.by_id.items():
                    self._by_name.setdefault(acl.resource_name, []).append((acl, acl_id))
            return self._by_name.get(wanted.resource_name or "", ())
        return ((acl, acl_id) for acl_id, acl in self.by_id.items())

    def change(self) -> AclsBuilder:
        """Return a builder of changes to this image."""
        return AclsBuilder(self.by_id, self.by_principal)


class AclsBuilder:
    """Changes to an image; each dictionary is copied at most once, as by `controller.image_builder`."""

    def __init__(self, by_id: Mapping[bytes, Acl], by_principal: Mapping[str, PrincipalAcls]) -> None:
        """Begin with the parts of an image."""
        self._by_id, self._by_principal = dict(by_id), dict(by_principal)
        self._copied: dict[str, dict[Acl, bytes]] = {}

    def add(self, acl_id: bytes, acl: Acl) -> None:
        """Add an entry; InvariantError if there is one with this id, or an equal one."""
        entries = self._of(acl.principal)
        if acl_id in self._by_id or acl in entries:
            raise InvariantError(f"the metadata log adds ACL {acl_id.hex()} twice")
        self._by_id[acl_id] = acl
        entries[acl] = acl_id

    def remove(self, acl_id: bytes) -> None:
        """Remove an entry; InvariantError if there is none with this id."""
        acl = self._by_id.pop(acl_id, None)
        if acl is None:
            raise InvariantError(f"the metadata log removes ACL {acl_id.hex()}, which does not exist")
        del self._of(acl.principal)[acl]

    def build(self) -> AclsImage:
        """Return the image with all changes; the builder must not be used afterwards."""
        for principal, entries in self._copied.items():
            if not entries:
                del self._by_principal[principal]
        return AclsImage(self._by_id, self._by_principal)

    def _of(self, principal: str) -> dict[Acl, bytes]:
        """Return the entries of a principal: a dictionary that may be changed."""
        copied = self._copied.get(principal)
        if copied is None:
            copied = self._by_principal[principal] = self._copied[principal] = dict(
                self._by_principal.get(principal, NO_ACLS)
            )
        return copied
