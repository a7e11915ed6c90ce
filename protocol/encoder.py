"""Generates encoders: `encode(message, out, cuts)` appends a message to `out`.

Records in files are not read: (position in `out`, records) is appended to `cuts`. A tagged field that has its default,
the common case, costs one comparison.
"""

from struct import pack
from typing import NoReturn

from protocol.errors import ErrorCode, KafkaError
from protocol.fields import FIXED_FORMATS, Field, fields_of
from protocol.primitives import RecordsPart, put_uvarint
from protocol.source import Source


class EncoderWriter:
    """Writes the encoder of one message at one version into `source`."""

    def __init__(self, message: type, version: int, flexible: bool) -> None:
        self.source = Source(f"{message.__name__} v{version} encode", "encode", "message, out, cuts")
        self.source.globals.update(_HELPERS)
        self._version = version
        self._flexible = flexible
        self._out = "out"
        # Formats and expressions of consecutive fixed-width values, to be written by one call.
        self._run: list[tuple[str, str]] = []
        self._struct(message, "message", message.__name__)
        self._flush()
        self.source.line("return")

    def _struct(self, struct: type, value: str, path: str) -> None:
        fields = fields_of(struct)
        for field in fields:
            if self._version not in field.versions:
                self._absent(field, f"{value}.{field.name}", f"{path}.{field.name}")
        for field in fields:
            if field.is_plain_at(self._version):
                self._field(field, f"{value}.{field.name}", f"{path}.{field.name}")
        if self._flexible:
            tagged = [field for field in fields if field.is_tagged_at(self._version)]
            self._tagged_fields(sorted(tagged, key=lambda field: field.tag or 0), value, path)

    def _absent(self, field: Field, value: str, path: str) -> None:
        if not field.ignorable:
            default = self.source.constant(field.default)
            self.source.line(f"if {value} != {default}: unsupported({path!r}, {self._version})")

    def _field(self, field: Field, expression: str, path: str) -> None:
        source = self.source
        if not field.is_list and field.scalar in FIXED_FORMATS:
            self._run.append((FIXED_FORMATS[field.scalar], expression))
            return
        value = source.fresh("v")
        source.line(f"{value} = {expression}")
        if self._version not in field.nullable:
            self._present(field, value, path)
            return
        # Both branches write the run so far, together with the null or the length.
        run = self._run.copy()
        with source.block(f"if {value} is None:"):
            self._null(field)
            self._flush()
        self._run = run
        with source.block("else:"):
            if field.struct and not field.is_list:
                self._run.append(("b", "1"))
            self._present(field, value, path)
            self._flush()

    def _null(self, field: Field) -> None:
        if field.struct and not field.is_list:
            self._run.append(("b", "-1"))
        elif self._flexible:
            self._run.append(("B", "0"))
        else:
            self._run.append(("h" if field.scalar == "String" and not field.is_list else "i", "-1"))

    def _present(self, field: Field, value: str, path: str) -> None:
        """Write a value of variable size that is not null."""
        source = self.source
        if field.is_list:
            self._list(field, value, path)
        elif field.struct:
            self._struct(field.struct, value, path)
        elif field.scalar == "Records":
            run, length = self._run.copy(), source.fresh("n")
            with source.block(f"if isinstance({value}, RAW):"):
                self._length("i", f"len({value})")
                self._flush()
                source.line(f"{self._out} += {value}")
            self._run = run
            with source.block("else:"):
                source.line(f"{length} = records_size({value})")
                self._length("i", length)
                self._flush()
                source.line(f"if {length}: cuts.append((len(out), {value}))")
        else:
            if field.scalar == "String":
                source.line(f"{value} = {value}.encode()")
            self._length("h" if field.scalar == "String" else "i", f"len({value})")
            self._flush()
            source.line(f"{self._out} += {value}")

    def _list(self, field: Field, values: str, path: str) -> None:
        source = self.source
        self._length("i", f"len({values})")
        self._flush()
        fixed = FIXED_FORMATS.get(field.scalar)
        if fixed and field.scalar != "Uuid":
            source.line(f"{self._out} += pack(f'>{{len({values})}}{fixed}', *{values})")
            return
        item = source.fresh("item")
        with source.block(f"for {item} in {values}:"):
            if field.struct and getattr(field.struct, "CACHES_BYTES", False):
                self._kept_struct(field.struct, item, path)
            elif field.struct:
                self._struct(field.struct, item, path)
            elif fixed:
                self._run.append((fixed, item))
            else:
                if field.scalar == "String":
                    source.line(f"{item} = {item}.encode()")
                self._length("h" if field.scalar == "String" else "i", f"len({item})")
                self._flush()
                source.line(f"{self._out} += {item}")
            self._flush()

    def _kept_struct(self, struct: type, item: str, path: str) -> None:
        """Write the item's cached bytes for this version, or encode it and cache them."""
        source, out = self.source, self._out
        kept, begin = source.fresh("kept"), source.fresh("begin")
        source.line(f"{kept} = getattr({item}, 'encoded', None)")
        with source.block(f"if {kept} is None:"):
            source.line(f"{kept} = {item}.encoded = {{}}")
        with source.block(f"if {self._version} in {kept}:"):
            source.line(f"{out} += {kept}[{self._version}]")
            source.line("continue")
        source.line(f"{begin} = len({out})")
        self._struct(struct, item, path)
        self._flush()
        source.line(f"{kept}[{self._version}] = bytes({out}[{begin}:])")

    def _tagged_fields(self, fields: list[Field], value: str, path: str) -> None:
        if not fields:
            self._run.append(("B", "0"))
            return
        source = self.source
        self._flush()
        unset = " and ".join(self._is_unset(field, f"{value}.{field.name}") for field in fields)
        with source.block(f"if {unset}:"):
            source.line(f"{self._out}.append(0)")
        with source.block("else:"):
            outer, tags = self._out, source.fresh("tags")
            source.line(f"{tags} = []")
            for field in fields:
                default = source.constant(field.default)
                with source.block(f"if {value}.{field.name} != {default}:"):
                    self._out = source.fresh("out")
                    source.line(f"{self._out} = bytearray()")
                    self._field(field, f"{value}.{field.name}", f"{path}.{field.name}")
                    self._flush()
                    source.line(f"{tags}.append(({field.tag}, {self._out}))")
            self._out = outer
            source.line(f"put_tagged_fields({outer}, {tags})")

    def _is_unset(self, field: Field, value: str) -> str:
        identical = field.default is None or (field.struct is not None and not field.is_list)
        return f"{value} {'is' if identical else '=='} {self.source.constant(field.default)}"

    def _length(self, fixed: str, length: str) -> None:
        """Write a length; in flexible versions as a varint of one more."""
        if not self._flexible:
            self._run.append((fixed, length))
            return
        compact, run = self.source.fresh("n"), self._run.copy()
        self.source.line(f"{compact} = {length} + 1")
        with self.source.block(f"if {compact} < 128:"):
            self._run.append(("B", compact))
            self._flush()
        self._run = run
        with self.source.block("else:"):
            self._flush()
            self.source.line(f"put_uvarint({self._out}, {compact})")

    def _flush(self) -> None:
        """Write the fixed-width values collected so far."""
        if not self._run:
            return
        formats = "".join(form for form, _ in self._run)
        values = ", ".join(value for _, value in self._run)
        if formats == "B":
            self.source.line(f"{self._out}.append({values})")
        else:
            self.source.line(f"{self._out} += {self.source.packer('pack', formats)}({values})")
        self._run.clear()


def _put_tagged_fields(out: bytearray, fields: list[tuple[int, bytearray]]) -> None:
    put_uvarint(out, len(fields))
    for tag, content in fields:
        put_uvarint(out, tag)
        put_uvarint(out, len(content))
        out += content


def _records_size(records: RecordsPart | list[RecordsPart]) -> int:
    if not isinstance(records, list):
        return records.size_bytes
    size = 0
    for part in records:
        size += part.size_bytes
    return size


def _unsupported(path: str, version: int) -> NoReturn:
    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"version {version} cannot carry {path}")


_RAW = (bytes, bytearray, memoryview)
_HELPERS = {
    "RAW": _RAW,
    "pack": pack,
    "put_tagged_fields": _put_tagged_fields,
    "put_uvarint": put_uvarint,
    "records_size": _records_size,
    "unsupported": _unsupported,
}
