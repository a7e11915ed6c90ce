"""Number of examples of each property: ``BARNABAS_TEST_EXAMPLES`` is a factor on the everyday number."""

import os

TIMES = int(os.environ.get("BARNABAS_TEST_EXAMPLES", "1"))


def examples(everyday: int) -> int:
    """Return Hypothesis' `max_examples` for a property with `everyday` examples in everyday runs."""
    return everyday * TIMES
