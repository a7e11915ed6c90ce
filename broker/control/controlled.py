"""A node as the control API sees it; the node creates the API, so the API imports no `broker.node`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.controller_server import ControllerServer
    from broker.shared_server import SharedServer


class ControlledNode(Protocol):
    """A node (`broker.node.Node`)."""

    shared: SharedServer
    controller: ControllerServer | None
    broker: BrokerServer | None

    @property
    def bootstrap(self) -> str:
        """The HOST:PORT for clients."""
