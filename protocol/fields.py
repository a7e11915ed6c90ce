"""Declaration of one field of a message: its type on the wire, and its versions.

A field is declared as `name: Type = wire(versions, ...)`. The annotation is a scalar of `schema.py`, a nested struct,
`list[...]` of either, and `... | None` if null is allowed. Annotations stay strings (`from __future__ import
annotations`): they are resolved, and version ranges parsed, when a class is first used, so that a declaration costs
almost no start-up time.

A field that a version lacks, or a tagged field that is not sent, has its default: as in Kafka 0, false, "", an empty
list or a struct of defaults, unless declared otherwise.
"""

import sys
from typing import Any, NamedTuple

from protocol.primitives import ZERO_UUID

# Fixed-width scalars and their formats in the struct module.
FIXED_FORMATS = {
    "Int8": "b",
    "Int16": "h",
    "Int32": "i",
    "Int64": "q",
    "UInt16": "H",
    "UInt32": "I",
    "Float64": "d",
    "Bool": "?",
    "Uuid": "16s",
}
_IMPLIED_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("Int8", "Int16", "Int32", "Int64", "UInt16", "UInt32"), 0),
    "Float64": 0.0,
    "Bool": False,
    "Uuid": ZERO_UUID,
    "String": "",
    "Bytes": b"",
    "Records": None,
}
_REQUIRED: Any = object()
_LAST_VERSION = 0x7FFF
_NO_VERSION = range(0)


class Wire(NamedTuple):
    """The arguments of `wire`."""

    versions: str
    default: Any
    tag: int | None
    tagged: str | None
    nullable: str | None
    ignorable: bool


def wire(
    versions: str = "0+",
    *,
    default: Any = _REQUIRED,
    tag: int | None = None,
    tagged: str | None = None,
    nullable: str | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare a field.

    `versions` is "3+", "-12", "3-7" or "3"; so are `tagged`, the versions in which the field is tagged, and `nullable`,
    those in which null is allowed (default of both: all `versions`). `default` makes the field optional in `__init__`;
    `[]` means a new list, `{}` a struct of defaults. Encoding in a version that lacks the field raises KafkaError
    (UNSUPPORTED_VERSION) if the value is not the default, unless the field is `ignorable`.
    """
    return Wire(versions, default, tag, tagged, nullable, ignorable)


PLAIN: Wire = wire()


class Field:
    """A resolved declaration."""

    __slots__ = (
        "default", "ignorable", "is_list", "name", "nullable", "required", "scalar", "struct", "tag", "tagged",
        "versions",
    )  # fmt: skip

    def __init__(self, owner: type, name: str, annotation: str, declared: Wire) -> None:
        self.name = name
        base = annotation.removesuffix(" | None")
        self.is_list = base.startswith("list[")
        self.struct: type | None = None
        self.scalar = base[5:-1] if self.is_list else base
        if self.scalar not in _IMPLIED_DEFAULTS:
            self.struct = _find_struct(owner, self.scalar)
        self.versions = parse_versions(declared.versions)
        self.nullable = _NO_VERSION
        if base != annotation:
            self.nullable = parse_versions(declared.nullable) if declared.nullable else self.versions
        self.tag = declared.tag
        self.tagged = _NO_VERSION
        if declared.tag is not None:
            self.tagged = parse_versions(declared.tagged) if declared.tagged else self.versions
        self.ignorable = declared.ignorable
        self.required = declared.default is _REQUIRED
        self.default = declared.default
        if self.required and self.is_list:
            self.default = []
        elif self.struct and not self.is_list and (self.required or self.default == {}):
            self.default = default_struct(self.struct)
        elif self.required:
            self.default = _IMPLIED_DEFAULTS[self.scalar]

    @property
    def json_name(self) -> str:
        """The name in Kafka's JSON definitions: camel case."""
        first, *rest = self.name.split("_")
        return first + "".join(word.capitalize() for word in rest)

    def is_plain_at(self, version: int) -> bool:
        """Return whether `version` has the field in its place, not as a tagged one."""
        return version in self.versions and version not in self.tagged

    def is_tagged_at(self, version: int) -> bool:
        """Return whether `version` has the field as a tagged one."""
        return version in self.versions and version in self.tagged


def parse_versions(text: str) -> range:
    """Return the versions that "3+", "-12", "3-7" or "3" means."""
    if text.endswith("+"):
        return range(int(text[:-1]), _LAST_VERSION + 1)
    first, dash, last = text.partition("-")
    return range(int(first or 0), int(last if dash else first) + 1)


def fields_of(struct: type) -> tuple[Field, ...]:
    """Return the fields of a declared class in wire order."""
    resolved: tuple[Field, ...] | None = struct.__dict__.get("_fields")
    if resolved is None:
        declared: dict[str, tuple[str, Wire]] = vars(struct)["_declared"]
        resolved = tuple(Field(struct, name, *declaration) for name, declaration in declared.items())
        struct._fields = resolved  # type: ignore[attr-defined]
    return resolved


def default_struct(struct: type) -> Any:
    """Return the shared struct of defaults for fields of this type that are not set.

    It is immutable; the encoder compares with it by identity first.
    """
    shared: Any = struct.__dict__.get("_default")
    if shared is None:
        shared = object.__new__(struct)
        for field in fields_of(struct):
            setattr(shared, field.name, field.default)
        namespace = {"__slots__": (), "__setattr__": _refuse_change, "_fields": fields_of(struct)}
        shared.__class__ = type(struct.__name__, (struct,), namespace)
        struct._default = shared  # type: ignore[attr-defined]
    return shared


def _refuse_change(self: object, name: str, _value: object) -> None:
    raise AttributeError(f"cannot set {name}: the {type(self).__name__} is a shared default, make a new one")


def _find_struct(owner: type, name: str) -> type:
    first, *rest = name.split(".")
    found: Any = vars(owner).get(first) or vars(sys.modules[owner.__module__]).get(first)
    for part in rest:
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise TypeError(f"{owner.__qualname__} has a field of unknown type {name}")
    return found
