"""What is wrong, and where."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

UNREADABLE = "file"
"""The field of a finding about a file that cannot be read at all."""


class Finding(NamedTuple):
    """A field of a file that cannot be right; `position` is a byte of it, or a line of a text, None for the whole."""

    path: str
    position: int | None
    field: str
    problem: str

    def __str__(self) -> str:
        where = "" if self.position is None else f" at {self.position}"
        return f"{self.path}{where}: {self.field}: {self.problem}"


def readable(path: str, found: Iterable[Finding]) -> Iterator[Finding]:
    """Yield what is found in the file or directory at `path`; an OSError on the way is a finding, and ends it."""
    try:
        yield from found
    except OSError as error:
        yield unreadable(path, error)


def unreadable(path: str, error: OSError) -> Finding:
    """Return the finding that a file or directory cannot be read."""
    return Finding(path, None, UNREADABLE, f"cannot be read: {(error.strerror or str(error)).lower()}")
