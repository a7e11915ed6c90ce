"""The input of `produce`: standard input or files, split into messages at a delimiter, or each file as one message."""

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from io import BufferedReader
from typing import cast

from barnabas.commands._output import CommandError

CHUNK_BYTES = 1 << 16
STANDARD_INPUT = "-"


class Input:
    """The messages of the files in order, or of standard input if there are none.

    A delimiter at the end of a file ends its last message; it does not start an empty one.
    """

    def __init__(self, paths: Sequence[str], delimiter: bytes, whole: bool) -> None:
        """Split at `delimiter`, or not at all if `whole`."""
        self.delimiter = delimiter
        self.number = 0
        self.name = "standard input"
        self._paths = paths
        self._whole = whole
        if not (delimiter or whole):
            raise CommandError("a delimiter has at least one byte")

    @property
    def size_bytes(self) -> int | None:
        """The total size, None if unknown."""
        try:
            found = [
                os.fstat(sys.stdin.fileno()) if path == STANDARD_INPUT else os.stat(path)
                for path in self._paths or (STANDARD_INPUT,)
            ]
        except (OSError, ValueError):
            return None
        return sum(one.st_size for one in found) if all(stat.S_ISREG(one.st_mode) for one in found) else None

    def __iter__(self) -> Iterator[bytes]:
        for path in self._paths or (STANDARD_INPUT,):
            if path == STANDARD_INPUT:
                self.name, self.number = "standard input", 0
                yield from self._numbered(cast("BufferedReader", sys.stdin.buffer))
                continue
            try:
                with open(path, "rb") as stream:
                    self.name, self.number = path, 0
                    yield from self._numbered(stream)
            except OSError as error:
                raise CommandError(f"cannot read {path}: {error.strerror}") from error

    def _numbered(self, stream: BufferedReader) -> Iterator[bytes]:
        if self._whole:
            messages: Iterator[bytes] = iter([stream.read()])
        elif self.delimiter == b"\n":
            messages = (line.removesuffix(b"\n") for line in stream)
        else:
            messages = _cut(stream, self.delimiter)
        for message in messages:
            self.number += 1
            yield message


def _cut(stream: BufferedReader, delimiter: bytes) -> Iterator[bytes]:
    rest = b""
    while chunk := stream.read1(CHUNK_BYTES):
        *messages, rest = (rest + chunk).split(delimiter)
        yield from messages
    if rest:
        yield rest
