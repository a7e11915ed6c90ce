"""How far a long command has got, for someone who watches it on a terminal; for nobody else.

The line is drawn on standard error, where results never are, at most ten times a second, and is gone at the end.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType

WIDTH = 24
INTERVAL_S = 0.1


class Progress:
    """A bar, or a count where it is not known how much there is to do."""

    def __init__(self, total: int | None, what: str, hidden: bool = False) -> None:
        """Count up to `total` of `what`; draw nothing if `hidden` or if standard error is not a terminal."""
        self._total = total
        self._what = what
        self._shown = not hidden and sys.stderr.isatty()
        self._done = 0
        self._began = self._drawn = time.monotonic()

    def advance(self, by: int) -> None:
        """So much more is done."""
        self._done += by
        if self._shown and time.monotonic() - self._drawn >= INTERVAL_S:
            self._drawn = time.monotonic()
            sys.stderr.write(f"\r{self.line()}\x1b[K")
            sys.stderr.flush()

    def line(self) -> str:
        """Return what is shown."""
        rate = self._done / max(time.monotonic() - self._began, 0.001)
        counted = f"{self._done:,} {self._what}, {rate:,.0f}/s"
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
