"""A real server on a real socket, with requests answered by the test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from broker.monitoring.counters import Metrics
from broker.network.connection import Connection
from broker.network.connection_counts import ConnectionLimits
from broker.network.connection_limits import Limits
from broker.network.connection_protocol import DeferredResponse
from broker.network.socket_server import Server
from broker.security.listener_tls import ListenerTls
from protocol.primitives import Part
from storage.disk import Disk
from tests.disks import FaultyDisk
from tests.unit.broker.controller_node import SETTINGS as CONTROLLER_SETTINGS
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.group_node import GroupNode
from tests.unit.broker.guarded_node import SETTINGS as GUARDED_SETTINGS
from tests.unit.broker.guarded_node import GuardedNode
from tests.unit.broker.held_threads import HeldThreads
from tests.unit.broker.jbod import Jbod
from tests.unit.broker.node import Node
from tests.unit.broker.replica_cluster import ReplicaCluster

if TYPE_CHECKING:
    from broker.network.connection_protocol import Dispatch


@pytest.fixture
def cluster() -> Iterator[ReplicaCluster]:
    """Yield three brokers that replicate from each other."""
    made = ReplicaCluster()
    yield made
    made.close()


@pytest.fixture
def threads(node: Node) -> Iterator[HeldThreads]:
    """Return `node`'s loop threads, which run nothing before the test releases them or ends."""
    with HeldThreads.of(node.loop) as held:
        yield held


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@dataclass
class Script:
    """Stands in for the dispatcher: records requests and returns scripted responses, by default an echo."""

    seen: list[bytes] = field(default_factory=list)
    read_only: list[bytes] = field(default_factory=list)
    answer: Callable[[bytes, Connection], list[Part] | DeferredResponse | None] = lambda body, _: [framed(body)]

    def __call__(self, request: memoryview, connection: Connection) -> list[Part] | DeferredResponse | None:
        self.seen.append(bytes(request))
        if request.readonly:
            self.read_only.append(bytes(request))
        return self.answer(bytes(request), connection)


@dataclass
class Client:
    """The client end of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, *bodies: bytes) -> None:
        self.writer.write(b"".join(map(framed, bodies)))

    async def receive(self) -> bytes:
        return await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4), "big"))

    async def closed(self) -> bool:
        """Wait until the server closes the connection."""
        try:
            return await self.reader.read() == b""
        except ConnectionResetError:
            return True


@dataclass
class Served:
    """A running server and its script."""

    server: Server
    script: Script
    port: int
    clients: list[Client] = field(default_factory=list)

    async def connect(self, **options: Any) -> Client:
        self.clients.append(Client(*await asyncio.open_connection("127.0.0.1", self.port, **options)))
        return self.clients[-1]


Serving = Callable[..., AbstractAsyncContextManager[Served]]
"""Type of fixture `serving`: takes connection limits by name, and the listener's TLS and SASL; yields a server."""

NewNode = Callable[..., Node]
"""Type of fixture `new_node`: takes a disk, and settings with _ for each dot in their names."""

NewController = Callable[..., ControllerNode]
"""Type of fixture `new_controller`: takes the same, and starts the broker."""

Run = Callable[[Awaitable[None]], None]
"""Type of fixture `run`."""


@pytest.fixture
def serving() -> Serving:
    @asynccontextmanager
    async def serving(
        connections: ConnectionLimits | None = None,
        tls: ListenerTls | None = None,
        sasl: Callable[[Dispatch], Dispatch] = lambda dispatch: dispatch,
        first_request_bytes: int | None = None,
        **limits: Any,
    ) -> AsyncIterator[Served]:
        defaults = Limits(connections or ConnectionLimits(100, 100), max_request_bytes=1 << 20, max_idle_s=600.0)
        server = Server(asyncio.get_running_loop(), defaults._replace(**limits), Metrics(), clock=time.monotonic)
        script = Script()
        port = await server.bind("PLAINTEXT", "127.0.0.1", 0, sasl(script), tls, first_request_bytes)
        served = Served(server, script, port)
        await server.start()
        try:
            yield served
        finally:
            for client in served.clients:
                client.writer.close()
            await server.stop(5.0)

    return serving


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine on either loop; fail if it exceeds the time limit of these tests."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_it(body: Awaitable[None]) -> None:
        async def bounded() -> None:
            await asyncio.wait_for(body, 30)

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(bounded())

    return run_it


@pytest.fixture
def new_node(tmp_path: Path) -> Iterator[NewNode]:
    """Return a function that builds a broker on a directory of its own, which the test need not stop."""
    nodes: list[Node] = []

    def new(disk: Disk | None = None, **settings: str) -> Node:
        nodes.append(Node(str(tmp_path / ("data" + "'" * len(nodes))), disk, **settings))
        return nodes[-1]

    yield new
    for node in nodes:
        node.stop()


@pytest.fixture
def stopped_node(new_node: NewNode) -> Node:
    return new_node()


@pytest.fixture
def guarded(new_node: NewNode) -> GuardedNode:
    """Return a broker with an authorizer and one super user, serving."""
    node = new_node(None, **GUARDED_SETTINGS)
    node.start()
    return GuardedNode(node)


@pytest.fixture
def node(stopped_node: Node) -> Node:
    """Return a broker's replicas on an empty disk, serving."""
    stopped_node.start()
    return stopped_node


@pytest.fixture
def group_node(node: Node) -> GroupNode:
    """Return a node that coordinates groups once `host` is called."""
    return GroupNode(node)


@pytest.fixture
def new_controller(new_node: NewNode) -> NewController:
    """Return a function that starts a broker that is its own controller."""

    def new(disk: Disk | None = None, **settings: str) -> ControllerNode:
        node = new_node(disk, **(CONTROLLER_SETTINGS | settings))
        node.start()
        return ControllerNode(node)

    return new


@pytest.fixture
def controlled(new_controller: NewController) -> ControllerNode:
    """Return a started broker that is its own controller."""
    return new_controller()


@pytest.fixture
def faulty_disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def start_jbod(tmp_path: Path, faulty_disk: FaultyDisk) -> Iterator[Callable[[], Jbod]]:
    """Start a broker with two directories; after each `end`, again on the same directories."""
    running: list[Jbod] = []

    def start() -> Jbod:
        running.append(Jbod(tmp_path, faulty_disk))
        return running[-1]

    yield start
    for jbod in running:
        jbod.end()


@pytest.fixture
def jbod(start_jbod: Callable[[], Jbod]) -> Jbod:
    """Return a broker with two directories, and ten batches in its one topic."""
    made = start_jbod()
    made.create()
    made.fill()
    return made
