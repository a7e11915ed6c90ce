"""`python -m tests.chaos.history FILE...`: check histories against Kafka's guarantees.

Exit status: 0 if all pass, 1 if one has an anomaly, 2 if one contains too little.
"""

import argparse
import sys
from pathlib import Path

from tests.chaos.history.checker import FAILED, MIN_ACKNOWLEDGED, PASSED, check
from tests.chaos.history.events import read


def main() -> int:
    """Check the files and print the verdicts."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.history", description=__doc__)
    parser.add_argument("file", nargs="+", type=Path)
    parser.add_argument("--min-acknowledged", type=int, default=MIN_ACKNOWLEDGED, metavar="N")
    options = parser.parse_args()
    outcomes = set()
    for path in options.file:
        try:
            with path.open() as lines:
                verdict = check(read(lines), options.min_acknowledged)
        except (OSError, ValueError) as error:
            parser.error(f"{path}: {error}")
        print(f"{path}: {verdict}")
        outcomes.add(verdict.outcome)
    return 1 if FAILED in outcomes else 0 if outcomes == {PASSED} else 2


if __name__ == "__main__":
    sys.exit(main())
