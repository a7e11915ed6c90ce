"""Instructions that a broker executes for a small Produce and a small Fetch, counted by valgrind.

The count varies by 0.1 % on a busy machine, where CPU time varies by half; it does not include caches and the kernel.
`--checkout DIR`, for example a worktree of another commit, is counted beside this one.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import fetch_cpu, produce_cpu
from benchmarks._loopback import PIPELINED, TOPIC, Client, create_topic
from benchmarks.start import Command, barnabas, free_port, started, wait_for_answer

BATCH_BYTES = 1024
START_TIMEOUT_S = 300.0
PARTITIONS = 6
COUNTS = 1000, 6000
"""Two runs, with that many requests each; the instructions of start and stop cancel out."""


def counted(checkout: Path, log: Path) -> Command:
    """Return the command that serves with a checkout's code under valgrind, whose summary goes to `log`."""
    environment = "env", "-C", str(checkout), f"PYTHONPATH={checkout}", "PYTHONHASHSEED=0"
    # The command execs the server in the same process: its summary is the last.
    valgrind = "valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"
    options = "--trace-children=yes", f"--log-file={log}"
    return lambda directory, port: (*environment, *valgrind, *options, *barnabas(directory, port))


def instructions(checkout: Path, make: str, count: int) -> int:
    """Return the instructions of a process that handled `count` requests; raise RuntimeError if none are counted."""
    with tempfile.TemporaryDirectory() as directory:
        log, port = Path(directory) / "summary", free_port()
        with started(counted(checkout, log)(Path(directory), port)) as process:
            wait_for_answer(process, port, START_TIMEOUT_S)
            topic_id = create_topic(port, TOPIC, PARTITIONS)
            frames = produce_cpu.produce_frames(topic_id, PARTITIONS, BATCH_BYTES)
            client = Client(port)
            if make == "Fetch":
                client.pipeline(frames, PARTITIONS, in_flight=1)
                frames = fetch_cpu.fetch_frames(topic_id, PARTITIONS, BATCH_BYTES)
            client.pipeline(frames, count, PIPELINED)
            client.close()
        summaries = [line for line in log.read_text().splitlines() if " refs:" in line]
        if not summaries:
            raise RuntimeError(f"valgrind counted nothing:\n{log.read_text()}")
        return int(summaries[-1].split()[-1].replace(",", ""))


def each(checkout: Path, make: str) -> float:
    """Return the instructions of one request."""
    instructions(checkout, make, 1)  # compiles changed modules
    few, many = (instructions(checkout, make, count) for count in COUNTS)
    return (many - few) / (COUNTS[1] - COUNTS[0])


def main(arguments: Sequence[str]) -> None:
    """Print the instructions of one request of each kind, for this checkout and for those named."""
    parser = argparse.ArgumentParser(prog="instructions", description=__doc__)
    parser.add_argument("--checkout", type=Path, action="append", default=[], metavar="DIR")
    options = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed")
    here = Path(__file__).parents[1]
    print(f"{'instructions a request':<40}{'Produce of 1 KB':>18}{'Fetch of 1 KB':>18}")
    for checkout in (here, *(path.resolve() for path in options.checkout)):
        produce, fetch = each(checkout, "Produce"), each(checkout, "Fetch")
        print(
            f"{'this checkout' if checkout == here else str(checkout):<40}{produce:>18,.0f}{fetch:>18,.0f}", flush=True
        )


if __name__ == "__main__":
    main(sys.argv[1:])
