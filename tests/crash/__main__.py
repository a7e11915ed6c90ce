"""`make crash`: check a number of power-cut states, or replay one."""

import argparse
import sys
import time
import traceback

from tests.crash import metadata_states, pairs, states


def main() -> int:
    parser = argparse.ArgumentParser(prog="make crash", description=__doc__)
    parser.add_argument("--states", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", type=int, help="check this one only")
    parser.add_argument("--pairs", action="store_true", help="two changes in the other order, beside renames and syncs")
    parser.add_argument("--metadata", action="store_true", help="of the metadata log, not of topics' logs")
    parser.add_argument("--failures", type=int, default=20, help="end after so many")
    options = parser.parse_args()
    numbers = range(options.states) if options.state is None else [options.state]
    started = time.monotonic()
    failures = 0
    checker = metadata_states if options.metadata else pairs if options.pairs else states
    for failure in checker.check_states(options.seed, numbers):
        failures += 1
        print(failure)
        if options.state is not None:
            traceback.print_exception(failure.error, limit=-3)
        if failures == options.failures:
            break
    print(f"{len(numbers)} states, {failures} failures, {time.monotonic() - started:.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
