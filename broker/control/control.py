"""Control: what tests control of a node, as the functions of the control API see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.control.api_problem import conflict
from broker.control.faults.fault_state import FaultState
from broker.control.transcript.exchange import ExchangeRing
from broker.control.waiting import Event

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.control.controlled import ControlledNode
    from broker.control.controlled_disk import ControlledDisk
    from broker.control.network_cuts import NetworkCuts
    from broker.control.shifted_clock import ShiftedClock


class Control:
    """The control of one node."""

    node: ControlledNode
    """The node, once the API serves."""

    def __init__(self, clock: ShiftedClock, disk: ControlledDisk, network: NetworkCuts) -> None:
        self.clock = clock
        self.disk = disk
        self.network = network
        self.faults = FaultState()
        self.completed = Event()
        """Happens with each exchange of the transcript that is complete."""
        self.transcript = ExchangeRing(self.completed.fire)

    def heal(self) -> int:
        """Remove all faults: rules, of which the number is returned, those of the disk, and cuts of the network."""
        self.disk.fault = None
        self.network.set(frozenset())
        return self.faults.clear()

    @property
    def broker(self) -> BrokerServer:
        """Return the node's broker; `ApiProblem` on a node that is only a controller."""
        if self.node.broker is None:
            raise conflict(f"node {self.node.shared.settings.node_id} is only a controller, without topics and groups")
        return self.node.broker
