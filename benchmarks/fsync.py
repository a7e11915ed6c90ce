"""The cost of acknowledging only records on disk: 64 producers with acks=all, one record in flight each.

Three topics of one broker take turns: `flush` leaves syncing to the operating system, as is the default; `always` is
`barnabas.fsync=always`, whose waiting batches share a sync; `one each` is `flush.messages=1`, a sync for each request.
The data is on a real disk: if the directory for temporary files is in memory, name another one.
"""

import argparse
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks._loopback import Server, create_topic
from benchmarks.produce_cpu import produce_frames
from benchmarks.start import TIMEOUT_S, barnabas, free_port, started, wait_for_answer

PRODUCERS = 64
RECORD_BYTES = 100
SECONDS = 3.0
GROUPED, UNSYNCED, ONE_EACH = "always", "flush", "one each"
CONFIGS: Mapping[str, Mapping[str, str]] = {
    UNSYNCED: {},
    GROUPED: {"barnabas.fsync": "always"},
    ONE_EACH: {"flush.messages": "1"},
}


def rate(server: Server, frames: Sequence[bytes], producers: int, seconds: float) -> float:
    """Return the requests a second of that many connections, each with one request in flight."""
    with selectors.DefaultSelector() as selector:
        sockets = []
        for number in range(producers):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ, frames[number % len(frames)])
            connection.sendall(frames[number % len(frames)])
            sockets.append(connection)
        answered, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            for key, _ in selector.select(TIMEOUT_S):
                connection = key.fileobj  # type: ignore[assignment]
                connection.recv(4096)  # so short a response arrives in one piece
                connection.sendall(key.data)
                answered += 1
        elapsed = time.perf_counter() - begun
        for connection in sockets:
            connection.close()
    return answered / elapsed


def measure(
    runs: int, directory: Path, *, producers: int = PRODUCERS, partitions: int = 1, seconds: float = SECONDS
) -> dict[str, list[float]]:
    """Return the rates of the three, measured in turn."""
    rates: dict[str, list[float]] = {name: [] for name in CONFIGS}
    port = free_port()
    with tempfile.TemporaryDirectory(dir=directory) as data, started(barnabas(Path(data), port)) as process:
        wait_for_answer(process, port)
        server = Server(process, port)
        frames = {}
        for number, (name, configs) in enumerate(CONFIGS.items()):
            topic_id = create_topic(port, f"fsync-{number}", partitions, configs)
            frames[name] = produce_frames(topic_id, partitions, RECORD_BYTES, acks=-1)
            rate(server, frames[name], producers, seconds / 10)
        for _ in range(runs):
            for name in CONFIGS:
                rates[name].append(rate(server, frames[name], producers, seconds))
    return rates


def target(rates: Mapping[str, Sequence[float]]) -> float:
    """Return the required rate of grouped syncs: half the rate without syncs, or 20 times that of one sync each."""
    return min(statistics.median(rates[UNSYNCED]) / 2, 20 * statistics.median(rates[ONE_EACH]))


def kind_of_disk(directory: Path) -> str:
    """Return the file system type of a directory."""
    command = ("stat", "--file-system", "--format=%T", str(directory))
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main(arguments: Sequence[str]) -> None:
    """Print the median rates."""
    parser = argparse.ArgumentParser(prog="fsync", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument("--producers", type=int, default=PRODUCERS, metavar="N")
    parser.add_argument("--partitions", type=int, default=1, metavar="N")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()), help="where the data is to lie")
    options = parser.parse_args(arguments)
    kind = kind_of_disk(options.directory)
    if kind == "tmpfs":
        raise SystemExit(f"{options.directory} is memory: name a directory on a disk by --directory")
    rates = measure(options.runs, options.directory, producers=options.producers, partitions=options.partitions)
    print(f"{options.producers} producers, {options.partitions} partitions, {kind}; median of {options.runs}")
    for name, found in rates.items():
        print(f"{name:<12}{statistics.median(found):>10.0f} requests/s")
    print(f"{'target':<12}{target(rates):>10.0f} requests/s of {GROUPED}")


if __name__ == "__main__":
    main(sys.argv[1:])
