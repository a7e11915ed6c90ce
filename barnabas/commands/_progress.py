"""Progress of a long command, shown only on a terminal.

The line is drawn on standard error at most ten times a second, and erased at the end.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from barnabas.commands._output import amount_of, complain

WIDTH = 24
INTERVAL_S = 0.1
WAITING_S = 2.0
"""After how long a waiting command reports that on a terminal."""


class Progress:
    """A bar, or a count if the total is unknown."""

    def __init__(self, total: int | None, what: str, hidden: bool = False) -> None:
        """Count up to `total` of `what` (singular); draw nothing if `hidden` or standard error is not a terminal."""
        self._total = total
        self._what = what
        self._shown = not hidden and sys.stderr.isatty()
        self._done = 0
        self._began = self._drawn = time.monotonic()

    def advance(self, by: int) -> None:
        """Add `by` to the progress."""
        self._done += by
        if self._shown and time.monotonic() - self._drawn >= INTERVAL_S:
            self._drawn = time.monotonic()
            sys.stderr.write(f"\r{self.line()}\x1b[K")
            sys.stderr.flush()

    def line(self) -> str:
        """Return the progress as text."""
        rate = self._done / max(time.monotonic() - self._began, 0.001)
        counted = f"{amount_of(self._done, self._what)}, {rate:,.0f}/s"
        if not self._total:
            return counted
        part = min(self._done / self._total, 1.0)
        return f"[{'#' * round(part * WIDTH):<{WIDTH}}] {part:4.0%}  {counted}"

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def waiting(command: str, what: str) -> Iterator[None]:
    """Print to a terminal that the command waits for `what` if the block takes longer than `WAITING_S`."""
    timer = threading.Timer(WAITING_S, complain, (command, f"waiting for {what}"))
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
