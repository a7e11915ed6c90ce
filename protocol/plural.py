"""Counts with nouns for messages: "1 record", "2 records"."""


def count_of(number: int, noun: str) -> str:
    """Return "1 record" or "2 records"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
