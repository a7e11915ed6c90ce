"""`python -m tests.fuzz [--minutes M] [--seed S]`: send mutated requests for M minutes (`make fuzz MINUTES=...`).

Each frame comes from its own seed. A failure prints that seed, the frame, and the command that replays it. If atheris
is installed (Python 3.12 and newer), `--atheris DIR` uses it to choose mutations by coverage.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from itertools import count

from tests.fuzz.hostile import HostileBroker, MisbehavedError, frame_of

# A broker is replaced after so many frames, with the topics and groups that they created.
_FRAMES_PER_BROKER = 20_000


def fuzz(minutes: float, first_seed: int) -> int:
    """Try one seed after another until the time is up; return the exit status."""
    deadline = time.monotonic() + minutes * 60
    seeds, outcomes = count(first_seed), Counter[str]()
    while time.monotonic() < deadline:
        with tempfile.TemporaryDirectory() as directory:
            broker = HostileBroker(directory)
            for _ in range(_FRAMES_PER_BROKER):
                if time.monotonic() >= deadline:
                    break
                seed = next(seeds)
                frame = frame_of(seed, broker)
                try:
                    outcomes[broker.handle(frame)] += 1
                except MisbehavedError as failure:
                    print(f"{failure}\nframe: {frame.hex()}\nreplay: python -m tests.fuzz --replay {seed}")
                    return 1
            broker.stop()
    print(f"{outcomes.total()} frames, seeds {first_seed} to {next(seeds) - 1}: {dict(outcomes)}")
    return 0


def replay(seed: int) -> int:
    """Send the frame of one seed to a new broker."""
    with tempfile.TemporaryDirectory() as directory:
        broker = HostileBroker(directory)
        print(broker.handle(frame_of(seed, broker)))
        broker.stop()
    return 0


def with_atheris(arguments: list[str]) -> None:
    """Let atheris generate frames, with its own options and corpus."""
    import atheris

    with tempfile.TemporaryDirectory() as directory:
        broker = HostileBroker(directory)
        atheris.instrument_all()
        atheris.Setup([sys.argv[0], *arguments], broker.handle)
        atheris.Fuzz()


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0, help="the first of the seeds")
    parser.add_argument("--replay", type=int, metavar="SEED", help="send one frame again")
    parser.add_argument("--atheris", nargs=argparse.REMAINDER, metavar="OPTION", help="options and corpus of atheris")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # the broker's warnings about malformed requests
    if options.atheris is not None:
        with_atheris(options.atheris)
    return fuzz(options.minutes, options.seed) if options.replay is None else replay(options.replay)


sys.exit(main())
