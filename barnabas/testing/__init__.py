"""A Kafka cluster for tests: `with Cluster(brokers=3) as cluster: ...`. The guide is docs/TESTING.md.

    cluster.py        the cluster: start, topics, groups, snapshots
    broker.py         one broker: kill, pause, restart
    clock.py          its clock, which a test advances
    disturbance.py    a broker's disk and network, when they fail
    fault.py          faults by rule: errors, delays, lost connections, for the requests that a test names
    simulated.py      an asyncio application and a cluster in virtual time, by seed
    plugin.py         fixtures for pytest
    aio.py            the same for asyncio

Nothing of the server is imported into the test's process: brokers are processes, which are controlled over HTTP, and
`simulate` runs in a process of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.testing._control import ControlRefusal
    from barnabas.testing._simulation import SimulationRun, SimulationRuns
    from barnabas.testing.broker import Broker
    from barnabas.testing.clock import Clock
    from barnabas.testing.cluster import Cluster
    from barnabas.testing.disturbance import BrokerDisk, BrokerNetwork, Disturbance
    from barnabas.testing.errors import ClusterError, SimulationFailure, WaitTimeout
    from barnabas.testing.fault import Fault
    from barnabas.testing.group import Group
    from barnabas.testing.records import TopicRecord
    from barnabas.testing.simulated import (
        SimulatedBroker,
        SimulatedCluster,
        SimulatedProcess,
        SimulatedRecord,
        simulate,
    )
    from barnabas.testing.topic import Topic

__all__ = [
    "Broker",
    "BrokerDisk",
    "BrokerNetwork",
    "Clock",
    "Cluster",
    "ClusterError",
    "ControlRefusal",
    "Disturbance",
    "Fault",
    "Group",
    "SimulatedBroker",
    "SimulatedCluster",
    "SimulatedProcess",
    "SimulatedRecord",
    "SimulationFailure",
    "SimulationRun",
    "SimulationRuns",
    "Topic",
    "TopicRecord",
    "WaitTimeout",
    "simulate",
]

_MODULES = {
    "Broker": "broker",
    "BrokerDisk": "disturbance",
    "BrokerNetwork": "disturbance",
    "Clock": "clock",
    "Cluster": "cluster",
    "ClusterError": "errors",
    "ControlRefusal": "_control",
    "Disturbance": "disturbance",
    "Fault": "fault",
    "Group": "group",
    "SimulatedBroker": "simulated",
    "SimulatedCluster": "simulated",
    "SimulatedProcess": "simulated",
    "SimulatedRecord": "simulated",
    "SimulationFailure": "errors",
    "SimulationRun": "_simulation",
    "SimulationRuns": "_simulation",
    "Topic": "topic",
    "TopicRecord": "records",
    "WaitTimeout": "errors",
    "simulate": "simulated",
}


def __getattr__(name: str) -> Any:
    """Import a class or function at its first use: pytest imports this package in every run."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return __all__
