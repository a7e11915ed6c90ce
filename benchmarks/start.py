"""Time from exec to the first ApiVersions response on an empty data directory, and resident memory when idle."""

import argparse
import contextlib
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

API_VERSIONS_REQUEST = struct.pack(">hhih", 18, 0, 7, -1)
TIMEOUT_S = 60.0
# Deferred work of a start (a first maintenance pass, a JVM's compiler) is over by then.
SETTLING_S = 3.0

Command = Callable[[Path, int], Sequence[str]]

# The Java options of Apache Kafka's start script (kafka-run-class.sh of 4.3), with its default heap.
KAFKA_JAVA = (
    *("java", "-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
)


class Start(NamedTuple):
    """One start of a process."""

    seconds: float
    resident_mb: float


def barnabas(directory: Path, port: int) -> Sequence[str]:
    """Return the command that serves on the port with its data in the directory."""
    return (
        *(sys.executable, "-m", "barnabas", "serve"),
        *("--listen", f"127.0.0.1:{port}", "--data-dir", str(directory / "data")),
    )


def barnabas_that_validates(directory: Path, port: int) -> Sequence[str]:
    """Return the command of a broker that validates each record, as Apache Kafka does."""
    return (*barnabas(directory, port), "-D", "barnabas.validate.records=true")


def apache_kafka(directory: Path, port: int) -> Sequence[str]:
    """Format a data directory for Apache Kafka, outside the measurement, and return the command that serves."""
    from tests.oracles.apache_kafka import kafka_classpath

    controller = free_port()
    settings = directory / "server.properties"
    settings.write_text(
        f"process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n"
        f"controller.listener.names=CONTROLLER\nlog.dirs={directory / 'data'}\n"
        "offsets.topic.replication.factor=1\n"
        "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
    )
    java = (*KAFKA_JAVA, "-cp", kafka_classpath())
    cluster_id = "WV5yoIVIQ7q2wIB0pOwZQg"
    formatting = (*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(settings))
    subprocess.run(formatting, check=True, capture_output=True)
    return (*java, "kafka.Kafka", str(settings))


def free_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextlib.contextmanager
def started(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a broker for the duration of the block."""
    # With cached bytecode, as in an installation, independent of this checkout's environment.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def wait_for_answer(process: subprocess.Popen[bytes], port: int, timeout_s: float = TIMEOUT_S) -> None:
    """Return once the broker has answered ApiVersions without an error; raise RuntimeError if it does not."""
    deadline = time.perf_counter() + timeout_s
    while time.perf_counter() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as client:
            client.sendall(struct.pack(">i", len(API_VERSIONS_REQUEST)) + API_VERSIONS_REQUEST)
            answer = client.recv(10, socket.MSG_WAITALL)
            if len(answer) == 10 and struct.unpack(">iih", answer)[1:] == (7, 0):
                return
        time.sleep(0.005)
    raise RuntimeError(f"no answer from {process.args!r}")


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024


def measure(command: Command) -> Start:
    """Start one broker on an empty directory."""
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        line = command(Path(directory), port)
        begun = time.perf_counter()
        with started(line) as process:
            wait_for_answer(process, port)
            seconds = time.perf_counter() - begun
            time.sleep(SETTLING_S)
            return Start(seconds, resident_mb(process.pid))


def main(arguments: Sequence[str]) -> None:
    """Print medians for Barnabas and, on request, for Apache Kafka, starting them in turn."""
    parser = argparse.ArgumentParser(prog="start", description=__doc__)
    parser.add_argument("--runs", type=int, default=10, metavar="N")
    parser.add_argument("--beside-kafka", action="store_true", help="measure Apache Kafka too (needs Java and Maven)")
    options = parser.parse_args(arguments)
    brokers: dict[str, Command] = {"Barnabas": barnabas}
    if options.beside_kafka:
        brokers["Apache Kafka"] = apache_kafka
    runs: dict[str, list[Start]] = {name: [] for name in brokers}
    measure(barnabas)  # The first start compiles changed modules.
    for _ in range(options.runs):
        for name, command in brokers.items():
            runs[name].append(measure(command))
    print(f"{'median of ' + str(options.runs):<16}{'first answer':>14}{'idle memory':>14}")
    for name, starts in runs.items():
        seconds = statistics.median(start.seconds for start in starts)
        resident_mb = statistics.median(start.resident_mb for start in starts)
        print(f"{name:<16}{seconds:>12.2f} s{resident_mb:>11.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
