"""With how many examples properties are tried: ``BARNABAS_TEST_EXAMPLES`` says how many times as many as every day."""

import os

TIMES = int(os.environ.get("BARNABAS_TEST_EXAMPLES", "1"))


def examples(everyday: int) -> int:
    """Return Hypothesis' `max_examples` for a property that is tried `everyday` times in everyday runs."""
    return everyday * TIMES
