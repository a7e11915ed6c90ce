"""A broker's controller on a real disk, and the handlers that use it: fixture `controlled`.

Requests and responses are encoded and decoded. The clock stands still unless a test moves `now`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

from broker.dispatch import decide_or_forward, handle_locally
from broker.metadata.controller_channel import ControllerChannel
from broker.metadata.controller_tasks import ControllerTasks
from broker.metadata.node_clients import NodeClients
from broker.metadata.raft_driver import RaftDriver
from broker.metadata.recently_fenced import RecentlyFenced
from broker.network.connection import RequestContext
from broker.network.network_client import NetworkClient
from broker.routes import ROUTES
from broker.settings import Option, check_settings
from controller.commands.brokers import unfence_broker
from controller.commands.registration import register_broker
from controller.image import Endpoint, MetadataImage
from protocol.api import ApiKey, request_class
from protocol.errors import InvariantError
from storage.checkpoint import MetaProperties
from storage.disk import Disk, OsDisk
from storage.log.config import LogConfig
from storage.log_directory import LogDirectory
from storage.log_manager import LogManager
from tests.unit.controller.cluster import new_registration

CLUSTER_ID = "0123456789abcdefghijkl"
LISTENER = "PLAINTEXT"


def _connect_to_no_node(node_id: int, _on_change: object) -> NetworkClient:
    raise AssertionError(f"there is no other controller, {node_id} least of all")


class ControllerNode:
    """The broker as metadata and administration handlers use it."""

    def __init__(self, path: str, disk: Disk | None = None) -> None:
        self.path = path
        self.disk = disk or OsDisk()
        self.loop = asyncio.new_event_loop()
        self.random = Random(1)
        self.now = 1_700_000_000_000
        self.failures: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.failures.append(context))
        self.settings = check_settings({})
        self.node_id = self.settings.node_id
        self.raft: RaftDriver
        self.controller = self  # stands in for both servers
        self.controller_channel: ControllerChannel
        self.tasks: ControllerTasks  # Not started.
        self.node_clients: NodeClients
        self.recently_fenced: RecentlyFenced
        self.endpoints: dict[str, Endpoint] = {}
        # Used for its free space only.
        self.logs = LogManager(self.disk, [path], LogConfig(), now_ms=self.now_ms, random=self.random)
        self.directory: LogDirectory | None = None

    def now_ms(self) -> int:
        return self.now

    @property
    def image(self) -> MetadataImage:
        return self.raft.image

    def start(self, settings: Mapping[str, str] | None = None, *, join: bool = True) -> None:
        """Open the directory and start; with `join`, register the broker and unfence it."""
        self.settings = check_settings({name: Option(text, "test") for name, text in (settings or {}).items()})
        self.directory = directory = LogDirectory(self.disk, self.path)
        directory.open()
        if directory.meta is None:
            directory.format(MetaProperties(CLUSTER_ID, self.node_id, b"directory-number"))
        self.raft = RaftDriver(
            self.disk,
            directory,
            self.settings,
            cluster_id=CLUSTER_ID,
            loop=self.loop,
            now_ms=lambda: self.now,
            random=self.random,
        )
        self.controller_channel = ControllerChannel(
            self.raft,
            _connect_to_no_node,
            lambda request: handle_locally(self, request),
            self.loop,
        )
        self.node_clients = NodeClients(self.settings, self.loop, self.random)
        self.recently_fenced = RecentlyFenced(self.loop.time)
        self.tasks = ControllerTasks(
            self.raft,
            self.settings,
            self.loop,
            broker_epoch=lambda: -1,
            has_exited=self.node_clients.has_exited,
        )
        self.wait(self.raft.start())
        if join:
            self.register()

    def register(self, broker_id: int = 1, listeners: Mapping[str, Endpoint] | None = None) -> int:
        """Register a broker and unfence it; return its epoch."""
        endpoints = listeners if listeners is not None else {LISTENER: Endpoint(f"host{broker_id}", 9092)}
        request = new_registration(
            broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.random.randbytes(16),
            endpoints=endpoints,
            directories=[bytes([broker_id]) * 16],
        )
        answer = self.wait(self.raft.submit(lambda image: register_broker(image, request, self.settings)))
        epoch: int = answer.broker_epoch
        self.wait(self.raft.submit(lambda image: unfence_broker(image, broker_id, epoch)))
        return epoch

    def stop(self) -> None:
        if self.directory is not None:
            self.wait(self.raft.stop())
            self.directory.close(clean=not self.failures)
            self.directory = None

    def crash(self) -> None:
        """Leave everything as a killed process does."""
        assert self.directory is not None
        self.directory.close(clean=False)
        self.directory = None

    def close(self) -> None:
        with suppress(InvariantError):
            self.stop()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def wait(self, outcome: Awaitable[Any]) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(outcome, 30)

        return self.loop.run_until_complete(bounded())

    def query(self, key: ApiKey, version: int, *, listener: str = LISTENER, **fields: Any) -> Any:
        """Send a request and return its response, as the client decodes it."""
        requests = request_class(key)
        request = requests.decode(requests(**fields).encode(version), version)
        context = RequestContext(key, version, 1, "test", 1, listener, "127.0.0.1", "User:ANONYMOUS")
        route = ROUTES[key]
        handle, _, own_part = route.load("broker")
        answer = (
            decide_or_forward(handle, own_part, self, context, request)
            if route.forwarded
            else handle(self, context, request)
        )
        if isinstance(answer, Awaitable):
            answer = self.wait(answer)
        return type(answer).decode(answer.encode(version), version)
