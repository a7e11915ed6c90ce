"""A node and the measurements of its `Monitor`, as the tables of metrics read them.

The monitor builds on the tables and the node creates the monitor, so the tables import neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.broker_server import BrokerServer
    from broker.controller_server import ControllerServer
    from broker.monitoring.elections import ElectionCounts
    from broker.monitoring.request_errors import RequestErrors
    from broker.monitoring.request_times import Times
    from broker.quotas.quota_manager import QuotaManager
    from broker.shared_server import SharedServer


class Measurements(Protocol):
    """What only a monitored node measures (`broker.monitoring.monitor.Monitor`)."""

    clock: Callable[[], float]
    times: dict[int, Times]
    errors: RequestErrors
    elections: ElectionCounts

    def idle_ratio(self) -> float:
        """Return the idle part of the process's time, 0 to 1."""


class MonitoredNode(Protocol):
    """A node (`broker.node.Node`)."""

    shared: SharedServer
    controller: ControllerServer | None
    broker: BrokerServer | None
    quotas: QuotaManager | None

    @property
    def monitor(self) -> Measurements | None:
        """The measurements."""
