"""A problem that a check has found: file, position, field and description."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

UNREADABLE = "file"
"""The field of a finding about a file that cannot be read at all."""


class Finding(NamedTuple):
    """A wrong field of a file; `position` is a byte, or the line of a text file; None for the whole file."""

    path: str
    position: int | None
    field: str
    problem: str

    def __str__(self) -> str:
        where = "" if self.position is None else f" at {self.position}"
        return f"{self.path}{where}: {self.field}: {self.problem}"


def readable(path: str, found: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings in `found`; an OSError becomes a finding about `path` and ends it."""
    try:
        yield from found
    except OSError as error:
        yield unreadable(path, error)


def unreadable(path: str, error: OSError) -> Finding:
    """Return the finding that a file or directory cannot be read."""
    return Finding(path, None, UNREADABLE, f"cannot be read: {(error.strerror or str(error)).lower()}")
