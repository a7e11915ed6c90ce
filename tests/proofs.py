"""Counts of what a run has tried: printed at the end of its suite, and below the table of all suites."""

import re
from collections import Counter

tried: Counter[str] = Counter()
"""Number of cases by their description, such as "states of a power cut"."""
_notes: list[str] = []

REPORTED = re.compile(r"tried: (.*)")


def count(what: str, number: int = 1) -> None:
    """Add `number` to the count of `what`."""
    tried[what] += number


def note(figures: str) -> None:
    """Report a line of figures, such as those of one attack."""
    _notes.append(figures)


def reported() -> list[str]:
    """Return the lines to print, which `REPORTED` matches."""
    return [f"tried: {number} {what}" for what, number in sorted(tried.items())] + [f"tried: {line}" for line in _notes]
