"""Send a recorded session's requests again, and read the responses of a broker.

Requests are sent and responses awaited in the recorded order, each on its connection.
"""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from protocol.api import ApiKey
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from tests.clients.sessions.transcript import ANSWERED, CLOSED, Reader, read, translated
from tests.raw_client import RawClient

# The broker of a session has one topic from the start.
TOPIC, GROUP = "session", "session-group"
SETTINGS = {
    "node.id": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "offsets.topic.num.partitions": 1,
    # Clocks of a replay may be behind those of the recording.
    "log.message.timestamp.after.max.ms": 2**63 - 1,
    "auto.create.topics.enable": "false",
}
TIMEOUT_S = 60


def prepare(bootstrap: str) -> None:
    """Create what every session requires: its topic, and the coordinator of its group."""
    client = RawClient(bootstrap)
    topic = CreateTopicsRequest.Topic
    created = topic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    client.call(ApiKey.CREATE_TOPICS, 7, topics=[created], timeout_ms=10_000)
    deadline = time.monotonic() + TIMEOUT_S
    while coordinator_error(client) and time.monotonic() < deadline:
        time.sleep(0.1)
    client.close()


def coordinator_error(client: RawClient) -> int:
    """Look up the coordinator of the group, which creates it; return the error of a request to it."""
    client.call(ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=[GROUP])
    group = OffsetFetchRequest.Group
    requested = group(group_id=GROUP, member_id=None, member_epoch=-1, topics=None)
    return int(client.call(ApiKey.OFFSET_FETCH, 9, groups=[requested]).groups[0].error_code)


class Exchange(NamedTuple):
    """A response as it was recorded, and as it is now."""

    where: str
    recorded: list[str]
    now: list[str]


def replay(path: Path, bootstrap: str, patience_s: float = 0) -> Iterator[Exchange]:
    """Replay a session on a fresh broker, response by response.

    A Metadata request is repeated for up to `patience_s`: a broker may apply a change late.
    """
    named, steps = read(path)
    reader = Reader()
    connections: dict[int, socket.socket] = {}
    waiting: dict[int, list[bytes]] = {}
    deadline = time.monotonic() + patience_s
    host, _, port = bootstrap.rpartition(":")
    try:
        for number, step in enumerate(steps):
            if step.kind == CLOSED:
                if step.connection in connections:
                    connections.pop(step.connection).close()
                continue
            if step.connection not in connections:
                connections[step.connection] = socket.create_connection((host, int(port)), TIMEOUT_S)
            connection = connections[step.connection]
            if step.kind == ANSWERED:
                frame, *others = waiting.pop(step.connection)
                while True:
                    title, shown = reader.response(step.connection, received(connection))
                    now, recorded = [title, *shown], [step.title, *step.shown]
                    if now == recorded or others or "Metadata" not in title or time.monotonic() > deadline:
                        break
                    time.sleep(0.05)
                    reader.request(step.connection, frame)
                    send(connection, frame)
                if others:
                    waiting[step.connection] = others
                yield Exchange(f"{number}: {step.title}", recorded, now)
            else:
                frame = translated(step.frame, named, reader.names.values)
                reader.request(step.connection, frame)
                send(connection, frame)
                waiting.setdefault(step.connection, []).append(frame)
    finally:
        for connection in connections.values():
            connection.close()


def send(connection: socket.socket, frame: bytes) -> None:
    connection.sendall(len(frame).to_bytes(4, "big") + frame)


def received(connection: socket.socket) -> bytes:
    size = int.from_bytes(exactly(connection, 4), "big")
    return exactly(connection, size)


def exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the broker closed the connection")
        data += more
    return bytes(data)
