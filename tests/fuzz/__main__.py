"""`python -m tests.fuzz [--minutes M] [--seed S]`: mutate requests for as long as one likes (`make fuzz MINUTES=...`).

Each frame comes from a seed of its own. A failure prints that seed and the frame, and the line that replays it. Where
atheris is installed (Python 3.12 and newer), `--atheris DIR` lets it choose the mutations by what they reach instead.
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

# What was created by chance (topics, groups) goes with the broker.
_FRAMES_PER_BROKER = 20_000


def fuzz(minutes: float, first_seed: int) -> int:
    """Try one seed after the other until the time is up; return the exit status."""
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
    """Let atheris look for frames, with its own options and corpus."""
    import atheris

    with tempfile.TemporaryDirectory() as directory:
        broker = HostileBroker(directory)
        atheris.instrument_all()
        atheris.Setup([sys.argv[0], *arguments], broker.handle)
        atheris.Fuzz()


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0, help="the first of the seeds")
    parser.add_argument("--replay", type=int, metavar="SEED", help="send one frame again")
    parser.add_argument("--atheris", nargs=argparse.REMAINDER, metavar="OPTION", help="options and corpus of atheris")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # what the broker has to say of such clients
    if options.atheris is not None:
        with_atheris(options.atheris)
    return fuzz(options.minutes, options.seed) if options.replay is None else replay(options.replay)


sys.exit(main())
