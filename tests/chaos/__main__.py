"""`python -m tests.chaos [--minutes M] [--seed S]`: faults on three brokers (`make chaos MINUTES=...`).

A run takes about a minute; each run increments the seed. The first failure prints its problems and the path of its
history, and ends the program; the same seed injects the same faults in the same order.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from tests.chaos.run import run

RUN_S = 60.0


def main() -> int:
    """Run until the time is up or a run fails; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, metavar="M")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="the first seed")
    parser.add_argument("--directory", type=Path, help="where the runs are; a temporary one by default")
    parser.add_argument("--no-java", action="store_true", help="without the Java clients")
    parser.add_argument("--transactions", action="store_true", help="with transactional clients instead of Java's")
    parser.add_argument("--secure", action="store_true", help="all listeners SASL_SSL; without the Java clients")
    options = parser.parse_args()
    directory = options.directory or Path(tempfile.mkdtemp(prefix="barnabas-chaos-"))
    if options.secure and options.transactions:
        parser.error("--secure: without --transactions")
    has_java = shutil.which("java") is not None and shutil.which("mvn") is not None
    java = has_java and not (options.no_java or options.secure)
    deadline = time.monotonic() + options.minutes * 60
    for seed in count(options.seed):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return 0
        where = directory / f"seed-{seed}"
        outcome = run(
            seed,
            min(RUN_S, left_s),
            where,
            java=java,
            transactional=options.transactions,
            secure=options.secure,
        )
        print(outcome, flush=True)
        if not outcome.has_passed:
            kind = "TRANSACTIONS=1 " * options.transactions + "SECURE=1 " * options.secure
            print(f"again: make chaos {kind}SEED={seed} MINUTES={options.minutes:g}")
            return 1
    raise AssertionError  # seeds never end


if __name__ == "__main__":
    sys.exit(main())
