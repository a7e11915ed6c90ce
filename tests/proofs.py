"""Counts of what a run has tried: printed at the end of its suite, and below the table of all suites."""

import re
from collections import Counter

tried: Counter[str] = Counter()
"""Number of cases by their description, such as "states of a power cut"."""

REPORTED = re.compile(r"tried: (.*)")


def count(what: str, number: int = 1) -> None:
    """Add `number` to the count of `what`."""
    tried[what] += number


def reported() -> list[str]:
    """Return the lines to print, which `REPORTED` matches."""
    return [f"tried: {number} {what}" for what, number in sorted(tried.items())]
