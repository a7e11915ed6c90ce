"""Declarations of messages (Kafka: the JSON schemas of its message generator).

    @message(key=1, versions=(4, 18), flexible=12)
    class FetchResponse(Message):
        throttle_time_ms: Int32 = wire(default=0)
        responses: list[Topic]

        @struct
        class Topic:
            topic: String = wire("-12", default="", ignorable=True)
            ...

Classes nest as the wire format does, with all versions in one class. The decorators make classes with slots and a
keyword-only `__init__`; that is generated at its first use, and the codecs at the first use of each version
(`compiler.py`). Stored records are declared in the same way. `fields.py` describes how a field is declared.
"""

from __future__ import annotations

import struct as _struct
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, cast, dataclass_transform

from protocol.compiler import Decoder, Encoder, compile_decoder, compile_encoder, generate_init, generate_maker
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.fields import PLAIN, Wire, wire
from protocol.primitives import ZERO_UUID, Buffer, Part, RecordsPart, RecordsValue, read_parts

# Besides its own names, this module exports these to the modules of messages.
__all__ = ["ZERO_UUID", "RecordsPart", "RecordsValue", "wire"]

Int8: TypeAlias = int
Int16: TypeAlias = int
Int32: TypeAlias = int
Int64: TypeAlias = int
UInt16: TypeAlias = int
UInt32: TypeAlias = int
Float64: TypeAlias = float
Bool: TypeAlias = bool
String: TypeAlias = str
Bytes: TypeAlias = bytes
Records: TypeAlias = RecordsValue
Uuid: TypeAlias = bytes

T = TypeVar("T")
_NEVER = 1 << 15


class Struct:
    """A value with named fields; equal to another of the same type with equal fields."""

    __slots__ = ()
    _names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, **values: Any) -> None:
        # Replaced by a generated function when the class is first used.
        cls = type(self)
        cls.__init__ = generate_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct) or self._names is not other._names:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names)
        return f"{type(self).__name__}({values})"


class CachedStruct(Struct):
    """A struct that caches its bytes for each version in which it was encoded as an item of a list.

    Use it for structs in many responses, such as the topics of Metadata. Fields must not change after the first
    encoding.
    """

    __slots__ = ("encoded", "error_codes")
    CACHES_BYTES: ClassVar[bool] = True
    encoded: dict[int, bytes]
    error_codes: tuple[int, ...]
    """The error codes in it, cached when they are first counted."""


class Message(Struct):
    """A request, a response or a stored record."""

    __slots__ = ()
    API_KEY: ClassVar[int | None] = None
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = _NEVER
    TRAILING_BYTES: ClassVar[bool] = False
    _decoders: ClassVar[dict[int, Decoder]]
    _encoders: ClassVar[dict[int, Encoder]]

    @classmethod
    def decode(cls, buf: Buffer, version: int, at: int = 0) -> Self:
        """Return the message that fills `buf` from `at` to its end; DecodeError for anything else.

        All fields are copied except `Records`, which are views: `buf` must not change while they are alive.
        """
        try:
            decoder = cls._decoders.get(version) or cls._compile_decoder(version)
            decoded: Self = decoder(buf, at)
        except (_struct.error, IndexError) as error:
            raise DecodeError(f"{cls.__name__} v{version} ends early") from error
        return decoded

    def encode(self, version: int) -> bytes:
        """Return the message's bytes in `version`; records in files are read.

        KafkaError (UNSUPPORTED_VERSION) if the version cannot carry the value of a field.
        """
        parts = self.encode_parts(version)
        return bytes(parts[0]) if len(parts) == 1 and isinstance(parts[0], bytearray) else read_parts(parts)

    def encode_parts(self, version: int, prefix: bytes = b"") -> list[Part]:
        """Return `prefix` and the message as parts in order; slices of files are not read."""
        out = bytearray(prefix)
        cuts: list[tuple[int, RecordsPart | list[RecordsPart]]] = []
        encoder = self._encoders.get(version) or self._compile_encoder(version)
        try:
            encoder(self, out, cuts)
        except _struct.error as error:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{type(self).__name__} v{version} cannot carry a value: {error}"
            ) from error
        if not cuts:
            return [out]
        parts: list[Part] = []
        view, start = memoryview(out), 0
        for at, records in cuts:
            parts.append(view[start:at])
            if isinstance(records, list):
                parts += records
            else:
                parts.append(records)
            start = at
        if start < len(out):
            parts.append(view[start:])
        return parts

    @classmethod
    def compiled(cls) -> tuple[list[int], list[int]]:
        """Return the versions that have been decoded so far, and those that have been encoded."""
        return list(vars(cls).get("_decoders", ())), list(vars(cls).get("_encoders", ()))

    @classmethod
    def prepare(cls, decoders: Iterable[int], encoders: Iterable[int]) -> None:
        """Make the decoders and encoders of these versions, which the first use would make."""
        for version in set(decoders) - cls._decoders.keys():
            cls._compile_decoder(version)
        for version in set(encoders) - cls._encoders.keys():
            cls._compile_encoder(version)

    @classmethod
    def _compile_decoder(cls, version: int) -> Decoder:
        if not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
            raise DecodeError(f"{cls.__name__} has no version {version}")
        source = compile_decoder(cls, version, version >= cls.FLEXIBLE_FROM)
        decoder = cls._decoders[version] = source.function()
        return decoder

    @classmethod
    def _compile_encoder(cls, version: int) -> Encoder:
        if not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{cls.__name__} has no version {version}")
        source = compile_encoder(cls, version, version >= cls.FLEXIBLE_FROM)
        encoder = cls._encoders[version] = source.function()
        return encoder


def maker(struct: type[T]) -> type[T]:
    """Return a function that creates a `struct` as calling the class does, but faster; for hot paths."""
    return cast("type[T]", generate_maker(struct))


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
def struct(cls: type[T]) -> type[T]:
    """Declare a struct inside a message."""
    return _declare(cls, {})


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
def message(
    *, versions: tuple[int, int], flexible: int | None = None, key: int | None = None, trailing_bytes: bool = False
) -> Callable[[type[T]], type[T]]:
    """Declare a message: first and last version, first flexible one (KIP-482), key of the API or record.

    With `trailing_bytes`, bytes after its end are ignored; otherwise they are an error.
    """

    def declare(cls: type[T]) -> type[T]:
        return _declare(
            cls,
            {
                "API_KEY": key,
                "VERSIONS": versions,
                "FLEXIBLE_FROM": _NEVER if flexible is None else flexible,
                "TRAILING_BYTES": trailing_bytes,
                "_decoders": {},
                "_encoders": {},
            },
        )

    return declare


def _declare(cls: type[T], attributes: dict[str, Any]) -> type[T]:
    # Create the class again: `__slots__` has no effect on an existing class.
    namespace = {**vars(cls), **attributes}
    namespace.pop("__dict__", None)
    namespace.pop("__weakref__", None)
    declared: dict[str, tuple[str, Wire]] = {
        name: (annotation, namespace.pop(name, PLAIN)) for name, annotation in cls.__annotations__.items()
    }
    names = tuple(declared)
    namespace.update(__slots__=names, _names=names, _declared=declared)
    bases = cls.__bases__ if issubclass(cls, Struct) else (Struct,)
    return type(cls.__name__, bases, namespace)
