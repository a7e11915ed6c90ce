"""Damage for tests: each field of docs/FORMATS.md in a file of its kind, and any byte of any file."""

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from protocol.record_batch import HEADER_BYTES, iter_batches
from tests import formats
from tests.formats import ByteField, LineField

LOG, SEGMENT = "t0-0", "t0-0/00000000000000000018"
METADATA = "__cluster_metadata-0"
CRC_FROM = 21
BINARY_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
TEXTS = ("", "~", "-5")


class Damage(NamedTuple):
    """Replaced bytes of a file, and the expected finding: one of the fields, between two positions."""

    what: str
    path: str
    position: int
    old: bytes
    new: bytes
    fields: frozenset[str] = frozenset()
    positions: range = range(0)

    def do(self, folder: Path) -> None:
        file = folder / self.path
        data = file.read_bytes()
        assert data[self.position : self.position + len(self.old)] == self.old
        file.write_bytes(data[: self.position] + self.new + data[self.position + len(self.old) :])

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def every_field(folder: Path) -> Iterator[Damage]:
    """Yield damage to each field of each format, in files of a data directory made by `tests/all_files.py`."""
    for name in (f"{SEGMENT}.log", f"{METADATA}/{0:020d}.log"):
        for at, header in list(iter_batches((folder / name).read_bytes()))[1:]:
            yield from _in_batch(folder, name, at, header.size_bytes)
            if at > 500:
                break
    for name in ("bootstrap.checkpoint", f"{METADATA}/{2:020d}-{1:010d}.checkpoint"):
        for at, header in iter_batches((folder / name).read_bytes()):
            yield from _in_batch(folder, name, at, header.size_bytes)
    for suffix, table in (
        (".index", formats.OFFSET_ENTRY),
        (".timeindex", formats.TIME_ENTRY),
        (".txnindex", formats.TXN_ENTRY),
    ):
        size = table[-1].offset + (table[-1].size or 0)
        data = (folder / f"{SEGMENT}{suffix}").read_bytes()
        for at in range(0, len(data), size):
            for field in table:
                # Of two contradicting values, either may be the damaged one.
                fields = {field.name} if suffix == ".txnindex" else {each.name for each in table}
                yield from _flips(folder, f"{SEGMENT}{suffix}", at, field, fields, range(at, at + size))
    for field in formats.SNAPSHOT:
        yield from _flips(folder, f"{SEGMENT}.snapshot", 0, field, {field.name, "crc"}, range(10))
    for field in formats.PRODUCER:
        yield from _flips(folder, f"{SEGMENT}.snapshot", formats.SNAPSHOT[-1].offset + 4, field, {"crc"}, range(10))
    for name, lines, separator in (
        ("recovery-point-offset-checkpoint", formats.OFFSETS, None),
        ("replication-offset-checkpoint", formats.OFFSETS, None),
        ("log-start-offset-checkpoint", formats.OFFSETS, None),
        ("cleaner-offset-checkpoint", formats.OFFSETS, None),
        (f"{LOG}/leader-epoch-checkpoint", formats.EPOCHS, None),
        (f"{LOG}/partition.metadata", formats.PARTITION, ": "),
        ("meta.properties", formats.META, "="),
    ):
        yield from _in_lines(folder, name, lines, separator)
    for name, lines in ((".kafka_cleanshutdown", formats.CLEAN_STOP), (f"{METADATA}/quorum-state", formats.QUORUM)):
        text = (folder / name).read_text()
        for line in lines:
            found = re.search(rf'"{line.name}":("[^"]*"|-?\d+)', text)
            assert found is not None
            for new in ("", "~", '"~"', "null", "[]", "1e99"):
                yield Damage(
                    f"{line.name} {new!r}", name, found.start(1), found[1].encode(), new.encode(),
                    frozenset({line.name, "line", "version", "data_version"}), range(1, 2),
                )  # fmt: skip


def _in_batch(folder: Path, name: str, at: int, size: int) -> Iterator[Damage]:
    for field in formats.BATCH:
        field = field if field.size is not None else field._replace(size=size - field.offset)
        # The CRC detects damage to its range without naming the field; a damaged length leads anywhere.
        fields = {"crc"} if field.offset >= CRC_FROM else {field.name}
        yield from _flips(folder, name, at, field, fields, range(at, at + HEADER_BYTES))


def _flips(folder: Path, name: str, at: int, field: ByteField, fields: set[str], positions: range) -> Iterator[Damage]:
    start, size = at + field.offset, field.size or 0
    old = (folder / name).read_bytes()[start : start + size]
    last, first = bytes([old[-1] ^ 1]), bytes([old[0] ^ 0x80])
    for what, new in (
        ("lowest bit", old[:-1] + last),
        ("highest bit", first + old[1:]),
        ("zeros", bytes(size)),
        ("ones", b"\xff" * size),
    ):
        if new != old:
            yield Damage(f"{field.name} at {start}, {what}", name, start, old, new, frozenset(fields), positions)


def _in_lines(folder: Path, name: str, lines: list[LineField], separator: str | None) -> Iterator[Damage]:
    text = (folder / name).read_text()
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    columns: dict[int, int] = {}
    for line in lines:
        column = columns[line.line] = columns.get(line.line, -1) + 1
        content = text[starts[line.line - 1] :].partition("\n")[0]
        tokens = [(found.start(), found[0]) for found in re.finditer(r"\S+", content)]
        at, token = tokens[column]
        if separator is not None:
            at = content.index(separator) + len(separator)
            token = content[at:]
        for new in TEXTS:
            if line.name == "cluster.id" and new:
                continue  # any text is a valid cluster id
            yield Damage(
                f"{line.name} {new!r}", name, starts[line.line - 1] + at, token.encode(), new.encode(),
                # A missing field makes the next one be read in its place.
                frozenset({line.name, *(other.name for other in lines if other.line == line.line), "count"}),
                range(line.line, line.line + 1),
            )  # fmt: skip


def every_byte(folder: Path, step: int) -> Iterator[Damage]:
    """Yield damage to every `step`th byte of each binary file."""
    number = 0
    for file in sorted(folder.rglob("*")):
        if file.suffix in BINARY_SUFFIXES:
            data = file.read_bytes()
            for at in range(len(data)):
                number += 1
                if number % step == 0:
                    bit = bytes([data[at] ^ 1 << (number // step) % 8])
                    yield Damage(f"byte {at}", str(file.relative_to(folder)), at, data[at : at + 1], bit)


def random_damage(folder: Path, random: Random, count: int) -> Iterator[Damage]:
    """Yield replacements of random bytes, some longer and some shorter, in any file."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != ".lock"]
    for _ in range(count):
        file = random.choice(files)
        data = file.read_bytes()
        at = random.randrange(len(data) + 1)
        old = data[at : at + random.choice((0, 1, 4, 30, 5000))]
        new = random.choice((b"", random.randbytes(random.choice((1, 3, len(old), 100))), bytes(len(old))))
        if new != old:
            yield Damage(f"{len(new)} bytes for {len(old)} at {at}", str(file.relative_to(folder)), at, old, new)
