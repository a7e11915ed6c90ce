"""Shared parts of the data path benchmarks: a raw client, a broker or a bare loop as server, its CPU seconds.

Frames are built before the clock starts, so the client costs little. The CPU time of the server process is measured:
other load on the machine affects it far less than throughput.
"""

import contextlib
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.start import TIMEOUT_S, Command, free_port, started, wait_for_answer
from protocol.api import ApiKey, request_class, response_class
from protocol.headers import RequestHeader, decode_response_header, encode_request_header

TOPIC = "benchmark"
BROKER, BARE_LOOP = "Barnabas", "bare loop"
PIPELINED = 5  # max.in.flight.requests.per.connection of Java's producer
_RECEIVE_BYTES = 1 << 20
_LATEST = -1
_LEADERS_WITHIN_S = 30
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Cost of some requests: the server's CPU seconds, wall-clock seconds, and bytes."""

    requests: int
    size_bytes: int
    user_s: float
    system_s: float
    seconds: float

    @property
    def user_s_per_gb(self) -> float:
        """CPU seconds in user mode, per 10^9 bytes."""
        return self.user_s / self.size_bytes * 1e9

    @property
    def user_us_per_request(self) -> float:
        """CPU microseconds in user mode, per request."""
        return self.user_s / self.requests * 1e6


class Client:
    """A connection that sends prepared frames and counts the responses."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._scratch = memoryview(bytearray(_RECEIVE_BYTES))

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def call(self, key: ApiKey, version: int, request: Any) -> Any:
        """Send a request and return its response."""
        self._socket.sendall(request_frame(key, version, request))
        (size,) = struct.unpack(">i", self._receive(4))
        answer = self._receive(size)
        _, body_at = decode_response_header(key, version, answer)
        return response_class(key).decode(answer, version, body_at)

    def _receive(self, size: int) -> bytes:
        """Return the next `size` bytes; with a timeout, MSG_WAITALL may return fewer."""
        data = bytearray(size)
        missing = memoryview(data)
        while missing:
            received = self._socket.recv_into(missing)
            if not received:
                raise EOFError("the broker hung up")
            missing = missing[received:]
        return bytes(data)

    def pipeline(self, frames: Sequence[bytes], count: int, in_flight: int) -> int:
        """Send `count` frames in turn, with that many in flight, and return the bytes of the responses."""
        sent = answered = received_bytes = 0
        due_bytes, head = 0, b""  # of the response that is being received
        scratch, connection = self._scratch, self._socket
        while answered < count:
            while sent < count and sent - answered < in_flight:
                connection.sendall(frames[sent % len(frames)])
                sent += 1
            size = connection.recv_into(scratch)
            if not size:
                raise RuntimeError("the connection was closed")
            received_bytes += size
            at = 0
            while at < size:
                if due_bytes:
                    taken = min(due_bytes, size - at)
                    due_bytes -= taken
                    at += taken
                else:
                    taken = min(4 - len(head), size - at)
                    head += bytes(scratch[at : at + taken])
                    at += taken
                    if len(head) < 4:
                        continue
                    due_bytes, head = int.from_bytes(head, "big"), b""
                answered += not due_bytes
        return received_bytes


class Server(NamedTuple):
    """A measured process and its port."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def bootstrap(self) -> str:
        """Return the bootstrap address for clients."""
        return f"127.0.0.1:{self.port}"

    def measure(self, frames: Sequence[bytes], count: int, in_flight: int = PIPELINED) -> Cost:
        """Send `count` frames in turn, after a few uncounted ones, and return what they cost the process."""
        client = Client(self.port)
        client.pipeline(frames, uncounted(frames, count), in_flight)
        user_s, system_s = self.cpu()
        begun = time.perf_counter()
        received_bytes = client.pipeline(frames, count, in_flight)
        seconds = time.perf_counter() - begun
        user_end_s, system_end_s = self.cpu()
        client.close()
        sent_bytes = sum(len(frames[at % len(frames)]) for at in range(count))
        return Cost(count, max(sent_bytes, received_bytes), user_end_s - user_s, system_end_s - system_s, seconds)

    def cpu(self) -> tuple[float, float]:
        """Return the process's CPU seconds so far, user and system."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) / _TICKS_PER_S, int(fields[12]) / _TICKS_PER_S


def uncounted(frames: Sequence[bytes], count: int) -> int:
    """Return how many requests `Server.measure` sends before the `count` that it measures."""
    return max(len(frames), count // 10)


def request_frame(key: ApiKey, version: int, request: Any) -> bytes:
    """Return a request with its frame header."""
    frame = encode_request_header(RequestHeader(key, version, 1, "benchmark")) + request.encode(version)
    result: bytes = struct.pack(">i", len(frame)) + frame
    return result


def create_topic(port: int, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> bytes:
    """Create a topic, wait until its partitions have leaders, and return its id."""
    requests: Any = request_class(ApiKey.CREATE_TOPICS)
    topic = requests.Topic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        assignments=[],
        configs=[requests.Topic.Config(name=key, value=value) for key, value in (configs or {}).items()],
    )
    client = Client(port)
    answer = client.call(ApiKey.CREATE_TOPICS, 7, requests(topics=[topic])).topics[0]
    client.close()
    if answer.error_code:
        raise RuntimeError(f"{name} was not created: {answer.error_message}")
    _wait_for_leaders(port, name, partitions)
    topic_id: bytes = answer.topic_id
    return topic_id


def _wait_for_leaders(port: int, topic: str, partitions: int) -> None:
    """Wait up to 30 s until each partition of a new topic is served: brokers apply its metadata after the response."""
    deadline = time.monotonic() + _LEADERS_WITHIN_S
    while True:
        try:
            log_end(port, topic, partitions)
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def log_end(port: int, topic: str, partitions: int) -> int:
    """Return the sum of the log end offsets of a topic's partitions."""
    requests: Any = request_class(ApiKey.LIST_OFFSETS)
    target = [
        requests.Topic.Partition(partition_index=index, current_leader_epoch=-1, timestamp=_LATEST)
        for index in range(partitions)
    ]
    request = requests(replica_id=-1, isolation_level=0, topics=[requests.Topic(name=topic, partitions=target)])
    client = Client(port)
    found = client.call(ApiKey.LIST_OFFSETS, 7, request).topics[0].partitions
    client.close()
    errors = [partition.error_code for partition in found if partition.error_code]
    if errors or len(found) != partitions:
        raise RuntimeError(f"ListOffsets of {topic}: {len(found)} partitions, errors {errors}")
    return sum(partition.offset for partition in found)


class Written:
    """Checks after each round that a topic's log ends grew by the number of records sent."""

    def __init__(self, port: int, topic: str, partitions: int) -> None:
        """Start from the topic's current log ends."""
        self._target = (port, topic, partitions)
        self._end = log_end(*self._target)

    def check(self, records: int) -> None:
        """Raise RuntimeError unless the log ends have moved by `records` since the last check."""
        before, self._end = self._end, log_end(*self._target)
        if self._end - before != records:
            raise RuntimeError(f"{self._target[1]}: {records} records were sent, {self._end - before} are in the log")


@contextlib.contextmanager
def running(command: Command) -> Iterator[Server]:
    """Run a new broker on an empty directory."""
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        with started(command(Path(directory), port)) as process:
            wait_for_answer(process, port)
            yield Server(process, port)


@contextlib.contextmanager
def bare_server(*arguments: str) -> Iterator[Server]:
    """Run `benchmarks._bare_loop`, the minimum work for any server in Python."""
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        command = (sys.executable, "-m", "benchmarks._bare_loop", str(port), f"{directory}/log", *arguments)
        with started(command) as process:
            deadline = time.perf_counter() + TIMEOUT_S
            while time.perf_counter() < deadline:
                with contextlib.suppress(OSError):
                    Client(port).close()
                    break
                time.sleep(0.01)
            yield Server(process, port)


Costs = Mapping[str, Sequence[Cost]]


def take_turns(runs: int, broker: Server, bare: Server, frames: Sequence[bytes], count: int) -> Costs:
    """Send `count` of the frames to both in turn, `runs` times; return the cost of each run."""
    costs: dict[str, list[Cost]] = {BROKER: [], BARE_LOOP: []}
    for _ in range(runs):
        costs[BROKER].append(broker.measure(frames, count))
        costs[BARE_LOOP].append(bare.measure(frames, count))
    return costs


def cheapest(costs: Sequence[Cost]) -> Cost:
    """Return the measurement with the least user time: disturbances only add."""
    return min(costs, key=lambda cost: cost.user_s)


HEADINGS = f"{'':<34}{'user s/GB':>11}{'system s/GB':>13}{'user us/request':>17}{'MB/s':>8}{'requests/s':>12}"


def row(name: str, cost: Cost) -> str:
    """Return a line under `HEADINGS`."""
    return (
        f"{name:<34}{cost.user_s_per_gb:>11.2f}{cost.system_s / cost.size_bytes * 1e9:>13.2f}"
        f"{cost.user_us_per_request:>17.1f}{cost.size_bytes / cost.seconds / 1e6:>8.0f}"
        f"{cost.requests / cost.seconds:>12.0f}"
    )
