"""Numbers in sentences."""


def counted(number: int, noun: str) -> str:
    """Return a number of things: "1 window", "1,200 windows", "0 batches"."""
    plural = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"
