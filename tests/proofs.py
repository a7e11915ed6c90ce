"""What a run has tried, in numbers: printed at the end of its suite, and again below the table of all suites."""

import re
from collections import Counter

tried: Counter[str] = Counter()
"""How many of what, such as "states of a power cut"."""

TOLD = re.compile(r"tried: (.*)")


def count(what: str, number: int = 1) -> None:
    """Add to what is told at the end."""
    tried[what] += number


def told() -> list[str]:
    """Return the lines that tell of it, for `TOLD` to find."""
    return [f"tried: {number} {what}" for what, number in sorted(tried.items())]
