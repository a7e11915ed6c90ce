"""5,000 idle connections after one ApiVersions request: seconds to accept them, resident memory of each."""

import argparse
import resource
import socket
import statistics
import struct
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks._loopback import Server, running
from benchmarks.start import API_VERSIONS_REQUEST, SETTLING_S, barnabas, resident_mb

CONNECTIONS = 5000


class Idle(NamedTuple):
    """The cost of the connections for the broker."""

    seconds: float
    kb_each: float


def connect(server: Server, count: int) -> list[socket.socket]:
    """Open connections, each of which sends ApiVersions; return them when all have responses."""
    sockets = []
    for _ in range(count):
        client = socket.create_connection(("127.0.0.1", server.port))
        client.sendall(struct.pack(">i", len(API_VERSIONS_REQUEST)) + API_VERSIONS_REQUEST)
        sockets.append(client)
    for client in sockets:
        (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
        client.recv(size, socket.MSG_WAITALL)
    return sockets


def measure(count: int = CONNECTIONS) -> Idle:
    """Connect to a newly started broker."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with running(barnabas) as server:
        for client in connect(server, 1):  # Load the code of the first request, which is no cost of a connection.
            client.close()
        time.sleep(SETTLING_S)
        before_mb = resident_mb(server.process.pid)
        begun = time.perf_counter()
        sockets = connect(server, count)
        seconds = time.perf_counter() - begun
        kb_each = (resident_mb(server.process.pid) - before_mb) * 1024 / count
        for client in sockets:
            client.close()
    return Idle(seconds, kb_each)


def main(arguments: Sequence[str]) -> None:
    """Print medians."""
    parser = argparse.ArgumentParser(prog="idle_connections", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, metavar="N")
    options = parser.parse_args(arguments)
    found = [measure(options.connections) for _ in range(options.runs)]
    seconds, kb_each = (statistics.median(column) for column in zip(*found, strict=True))
    print(f"{options.connections} connections: {seconds:.2f} s to accept them, {kb_each:.1f} KB of memory each")


if __name__ == "__main__":
    main(sys.argv[1:])
