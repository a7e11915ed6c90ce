"""The state of the broker and, as far as it knows, of its cluster; and the wait for a state of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from broker.control.bodies import NumberRange
from broker.control.waiting import DEFAULT_TIMEOUT_MS, TimeoutMs, metadata_changes, until, wait_result
from broker.network.listeners import join_host_port
from protocol.plural import count_of

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.control.control import Control


class ClusterWait(NamedTuple):
    """A wait for a number of active brokers and, of each partition of some topics, of replicas in sync."""

    brokers: Annotated[int, NumberRange(0)] = 0
    isr: dict[str, int] | None = None
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS


async def describe_broker(control: Control) -> dict[str, Any]:
    """Return the broker's identity, state and place in the cluster."""
    node = control.node
    shared = node.shared
    image = shared.raft.image
    return {
        "node_id": shared.settings.node_id,
        "cluster_id": shared.cluster_id,
        "version": shared.version,
        "phase": shared.phase,
        "clock_ms": control.clock.shift_ms,
        "requests": control.transcript.count,
        "bootstrap": node.bootstrap if shared.endpoints else "",
        "controller": shared.raft.leader_id,
        "brokers": [
            {
                "node_id": broker.broker_id,
                "active": broker.active,
                "epoch": broker.epoch,
                "endpoints": {
                    name: join_host_port(endpoint.host, endpoint.port) for name, endpoint in broker.endpoints.items()
                },
            }
            for broker in image.brokers.values()
        ],
    }


async def wait_for_cluster(control: Control, body: ClusterWait) -> dict[str, Any]:
    """Wait until this broker's metadata has so many active brokers, and so many replicas in sync."""
    broker = control.broker
    isr = body.isr or {}
    met = await until(
        lambda: _active(broker) >= body.brokers and not _lagging(broker, isr),
        [metadata_changes(broker.raft)],
        body.timeout_ms,
    )
    text = "; ".join([f"{count_of(_active(broker), 'broker')} active", *_lagging(broker, isr)])
    wanted = f"the cluster has {count_of(body.brokers, 'active broker')}"
    if isr:
        wanted += f" and replicas in sync: {', '.join(f'{count} of {topic}' for topic, count in isr.items())}"
    return wait_result(met, wanted, body.timeout_ms, await describe_broker(control), text)


def _active(broker: BrokerServer) -> int:
    return sum(one.active for one in broker.image.brokers.values())


def _lagging(broker: BrokerServer, isr: dict[str, int]) -> list[str]:
    """Return the partitions with fewer replicas in sync than their topic shall have."""
    found = []
    for name, count in isr.items():
        topic = broker.image.topic(name)
        if topic is None:
            found.append(f"there is no topic {name}")
            continue
        found += [
            f"{name}-{state.partition} has the ISR {list(state.isr)}"
            for state in topic.partitions.values()
            if len(state.isr) < count
        ]
    return found
