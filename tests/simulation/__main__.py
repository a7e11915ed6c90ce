"""`make sim`: run seeds and print the outcome of each; a failure prints the command that replays it."""

import argparse
import sys
import time
import traceback

from tests.simulation.simulation import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first, or the only one")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument(
        "--brokers", type=int, default=1, help="3 for clusters, some of which have 5; 5 for clusters of 5"
    )
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--transactions", action="store_true", help="with transactional clients, and fewer others")
    parser.add_argument("--credentials", action="store_true", help="with users and tokens, and fewer others")
    parser.add_argument("--failures", type=int, default=5, help="end after so many")
    options = parser.parse_args()
    started, events, failures = time.monotonic(), 0, 0
    for seed in range(options.seed, options.seed + options.seeds):
        outcome = run(
            seed, options.events, options.brokers, transactions=options.transactions, credentials=options.credentials
        )
        events += outcome.events
        counts = ", ".join(f"{count} {what}" for what, count in sorted(outcome.counts.items()))
        print(f"seed {seed}: {outcome.events} events in {outcome.seconds:.1f} s, hash {outcome.digest}: {counts}")
        if outcome.error is not None:
            failures += 1
            if options.seeds == 1:
                traceback.print_exception(outcome.error)
            print(f"{type(outcome.error).__name__}: {outcome.error}")
            replay = f"--brokers {options.brokers} --seed {seed} --events {options.events}"
            replay += " --transactions" if options.transactions else ""
            replay += " --credentials" if options.credentials else ""
            print(f"replay: python -m tests.simulation {replay}", flush=True)
            if failures == options.failures:
                break
    took_s = time.monotonic() - started
    print(
        f"{options.seeds} seeds, {events} events, {failures} failures, {took_s:.1f} s, {events / took_s:.0f} events/s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
