"""A broker that is its own controller, and the handlers that use its metadata: fixture `controlled`."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any

from broker.broker_server import BrokerServer
from broker.dispatch import decide_or_forward
from broker.metadata.raft_driver import RaftDriver
from broker.network.connection import RequestContext
from broker.routes import ROUTES
from broker.settings import Settings
from controller.commands.brokers import unfence_broker
from controller.commands.registration import register_broker
from controller.image import Endpoint, MetadataImage
from protocol.api import ApiKey, request_class
from tests.unit.broker.node import LISTENER, NODE_ID, Node
from tests.unit.controller.cluster import new_registration

CLUSTER_ID = "0123456789abcdefghijkl"
SETTINGS = {
    "barnabas_cluster_id": CLUSTER_ID,
    "advertised_listeners": f"{LISTENER}://host1:9092",
    "offsets_topic_num_partitions": "",
}


class ControllerNode:
    """The node, and the steps that tests repeat. Requests and responses are encoded and decoded."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.random = node.random
        self.wait = node.wait

    @property
    def broker(self) -> BrokerServer:
        return self.node.broker

    @property
    def raft(self) -> RaftDriver:
        return self.broker.raft

    @property
    def image(self) -> MetadataImage:
        return self.broker.image

    @property
    def settings(self) -> Settings:
        return self.broker.settings

    def register(self, broker_id: int = 1, listeners: Mapping[str, Endpoint] | None = None) -> int:
        """Register a broker, by default this one again, and unfence it; return its epoch."""
        own = [directory.directory_id for directory in self.broker.logs.directories]
        request = new_registration(
            broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.random.randbytes(16),
            endpoints=listeners if listeners is not None else {LISTENER: Endpoint(f"host{broker_id}", 9092)},
            directories=own if broker_id == NODE_ID else [bytes([broker_id]) * 16],
        )
        answer = self.wait(self.raft.submit(partial(register_broker, request=request, settings=self.settings)))
        epoch: int = answer.broker_epoch
        self.wait(self.raft.submit(lambda image: unfence_broker(image, broker_id, epoch)))
        return epoch

    def query(self, key: ApiKey, version: int, *, listener: str = LISTENER, **fields: Any) -> Any:
        """Send a request and return its response, as the client decodes it."""
        requests = request_class(key)
        request = requests.decode(requests(**fields).encode(version), version)
        context = RequestContext(key, version, 1, "test", 1, listener, "127.0.0.1", "User:ANONYMOUS")
        route = ROUTES[key]
        handle, _, own_part = route.load("broker")
        answer = (
            decide_or_forward(handle, own_part, self.broker, context, request)
            if route.forwarded
            else handle(self.broker, context, request)
        )
        if isinstance(answer, Awaitable):
            answer = self.wait(answer)
        return type(answer).decode(answer.encode(version), version)
