"""Generates decoders: `decode(buf, at)` returns the message that fills `buf` from `at` to its end.

Most reads need no bounds check. The position only grows; past the end, fixed-width fields raise struct.error and single
bytes IndexError, and after a slice that is too short the final position is not the buffer's size. Only counts are
checked, before anything is allocated: their elements must fit into the bytes left. All lists of a message together have
at most `MAX_ELEMENTS`, which bounds the decoding time of tiny elements. Records are views of the buffer;
everything else is copied.
"""

from struct import calcsize, unpack_from
from typing import NoReturn

from protocol.errors import DecodeError
from protocol.fields import FIXED_FORMATS, Field, fields_of
from protocol.primitives import MAX_TAGGED_FIELDS, read_uvarint, skip_tagged_fields
from protocol.source import Source


class DecoderWriter:
    """Writes the decoder of one message at one version into `source`."""

    def __init__(self, message: type, version: int, flexible: bool) -> None:
        self.source = Source(f"{message.__name__} v{version} decode", "decode", "buf, at")
        self.source.globals.update(_HELPERS)
        self._version = version
        self._flexible = flexible
        # Formats and targets of consecutive fixed-width fields, to be read by one call.
        self._run: list[tuple[str, str]] = []
        line = self.source.line
        line("size = len(buf)")
        line("view = memoryview(buf)")
        line(f"left = {MAX_ELEMENTS}")
        self._struct(message, "message", message.__name__)
        end_is_wrong = "at > size" if getattr(message, "TRAILING_BYTES", False) else "at != size"
        line(f"if {end_is_wrong}: wrong_end({message.__name__!r}, at, size)")
        line("return message")

    def _struct(self, struct: type, target: str, path: str) -> None:
        """Read a struct into a new object; slots of fields that the version lacks get their defaults."""
        source, fields = self.source, fields_of(struct)
        source.line(f"{target} = new({source.bind(struct.__name__, struct)})")
        for field in fields:
            if not field.is_plain_at(self._version):
                source.line(f"{target}.{field.name} = {source.constant(field.default)}")
        for field in fields:
            if field.is_plain_at(self._version):
                self._field(field, f"{target}.{field.name}", f"{path}.{field.name}")
        if self._flexible:
            tagged = [field for field in fields if field.is_tagged_at(self._version)]
            self._tagged_fields(tagged, target, path)
        self._flush()

    def _field(self, field: Field, target: str, path: str) -> None:
        nullable = self._version in field.nullable
        if field.is_list:
            self._list(field, target, path, nullable)
        elif field.struct:
            self._struct_field(field.struct, target, path, nullable)
        elif field.scalar in FIXED_FORMATS:
            self._run.append((FIXED_FORMATS[field.scalar], target))
        else:
            self._sized(field.scalar, target, path, nullable)

    def _struct_field(self, struct: type, target: str, path: str, nullable: bool) -> None:
        if not nullable:
            value = self.source.fresh(struct.__name__.lower())
            self._struct(struct, value, path)
            self.source.line(f"{target} = {value}")
            return
        present = self.source.fresh("present")
        self._run.append(("b", present))
        self._flush()
        with self.source.block(f"if {present} < 0:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self._struct_field(struct, target, path, nullable=False)

    def _sized(self, scalar: str, target: str, path: str, nullable: bool) -> None:
        """Read a string, bytes or records: a length and that many bytes."""
        source = self.source
        length = self._length("h" if scalar == "String" else "i")
        if scalar == "String" and self._flexible:
            source.line(f"if {length} > {_MAX_STRING_BYTES + 1}: too_long({path!r}, {length} - 1)")
        with source.block(self._if_present(length)):
            source.line(f"end = at + {length}{' - 1' if self._flexible else ''}")
            source.line(f"{target} = {_SIZED[scalar]}")
            source.line("at = end")
        self._else_null(target, path, nullable)

    def _list(self, field: Field, target: str, path: str, nullable: bool) -> None:
        source = self.source
        length = self._length("i")
        with source.block(self._if_present(length)):
            if self._flexible:
                source.line(f"{length} -= 1")
            smallest = self._smallest(field, element=True)
            needed = f"{length} * {smallest}" if smallest > 1 else length
            source.line(f"if {needed} > size - at: does_not_fit({path!r}, {length})")
            source.line(f"left -= {length}")
            source.line(f"if left < 0: too_many({path!r})")
            fixed = FIXED_FORMATS.get(field.scalar)
            if fixed and field.scalar != "Uuid":
                source.line(f"{target} = list(unpack_from(f'>{{{length}}}{fixed}', buf, at))")
                source.line(f"at += {needed}")
            else:
                items = source.fresh("items")
                source.line(f"{target} = {items} = []")
                with source.block(f"for _ in range({length}):"):
                    item = source.fresh("item")
                    if field.struct:
                        self._struct(field.struct, item, path)
                    elif fixed:
                        self._run.append((fixed, item))
                        self._flush()
                    else:
                        self._sized(field.scalar, item, path, nullable=False)
                    source.line(f"{items}.append({item})")
        self._else_null(target, path, nullable)

    def _tagged_fields(self, fields: list[Field], target: str, path: str) -> None:
        source = self.source
        count, tag = source.fresh("tags"), source.fresh("tag")
        self._run.append(("B", count))
        self._flush()
        with source.block(f"if {count}:"):
            source.line(f"left -= {count}")
            source.line(f"if left < 0 or {count} > {MAX_TAGGED_FIELDS}: too_many({path!r})")
            if not fields:
                source.line("at = skip_tagged_fields(buf, at - 1)")
                return
            with source.block(f"for _ in range({count}):"):
                field_end = source.fresh("field_end")
                source.line(f"{tag}, at = read_uvarint(buf, at)")
                source.line(f"{field_end}, at = read_uvarint(buf, at)")
                source.line(f"{field_end} += at")
                branch = "if"
                for field in fields:
                    with source.block(f"{branch} {tag} == {field.tag}:"):
                        self._field(field, f"{target}.{field.name}", f"{path}.{field.name}")
                        self._flush()
                        inner = f"{path}.{field.name}"
                        source.line(f"if at != {field_end}: wrong_end({inner!r}, at, {field_end})")
                    branch = "elif"
                source.line(f"else: at = {field_end}")

    def _length(self, fixed: str) -> str:
        """Read a length with the run before it; in flexible versions it is one more, and 0 is null."""
        length = self.source.fresh("n")
        self._run.append(("B" if self._flexible else fixed, length))
        self._flush()
        if self._flexible:
            self.source.line(f"if {length} > 127: {length}, at = read_uvarint(buf, at - 1)")
        return length

    def _if_present(self, length: str) -> str:
        return f"if {length}:" if self._flexible else f"if {length} >= 0:"

    def _else_null(self, target: str, path: str, nullable: bool) -> None:
        self.source.line(f"else: {target} = None" if nullable else f"else: not_null({path!r})")

    def _flush(self) -> None:
        """Read the fixed-width fields collected so far."""
        if not self._run:
            return
        formats = "".join(form for form, _ in self._run)
        targets = ", ".join(target for _, target in self._run)
        if formats == "B":
            self.source.line(f"{targets} = buf[at]")
        else:
            comma = "," if len(self._run) == 1 else ""
            self.source.line(f"{targets}{comma} = {self.source.packer('unpack_from', formats)}(buf, at)")
        self.source.line(f"at += {calcsize('>' + formats)}")
        self._run.clear()

    def _smallest(self, field: Field, *, element: bool = False) -> int:
        """Return the fewest bytes that a field, or an element of its list, can take."""
        if field.is_list and not element:
            return 1 if self._flexible else 4
        if field.struct:
            if self._version in field.nullable and not element:
                return 1
            plain = [inner for inner in fields_of(field.struct) if inner.is_plain_at(self._version)]
            return max(1, self._flexible + sum(map(self._smallest, plain)))
        fixed = FIXED_FORMATS.get(field.scalar)
        if fixed:
            return calcsize(f">{fixed}")
        return 1 if self._flexible else 2 if field.scalar == "String" else 4


# The largest int16 length. The varints of flexible versions could be larger; Kafka rejects that too.
_MAX_STRING_BYTES = 0x7FFF


# Enough for every partition of a large cluster; decoded in 0.1 s.
MAX_ELEMENTS = 200_000


def _does_not_fit(path: str, count: int) -> NoReturn:
    raise DecodeError(f"{path}: {count} elements do not fit into the bytes left")


def _too_many(path: str) -> NoReturn:
    raise DecodeError(
        f"{path}: more than {MAX_ELEMENTS} elements in one message, or {MAX_TAGGED_FIELDS} tagged fields in one place"
    )


def _too_long(path: str, size: int) -> NoReturn:
    raise DecodeError(f"{path}: a string of {size} bytes, more than {_MAX_STRING_BYTES}")


def _not_null(path: str) -> NoReturn:
    raise DecodeError(f"{path} must not be null")


def _wrong_end(path: str, at: int, end: int) -> NoReturn:
    raise DecodeError(f"{path} ends at byte {at} instead of {end}")


# Invalid UTF-8 is replaced, as in Kafka, so that a client with such an id is still served.
_SIZED = {"String": "str(buf[at:end], 'utf-8', 'replace')", "Bytes": "bytes(buf[at:end])", "Records": "view[at:end]"}
_HELPERS = {
    "does_not_fit": _does_not_fit,
    "new": object.__new__,
    "not_null": _not_null,
    "read_uvarint": read_uvarint,
    "skip_tagged_fields": skip_tagged_fields,
    "too_long": _too_long,
    "too_many": _too_many,
    "unpack_from": unpack_from,
    "wrong_end": _wrong_end,
}
