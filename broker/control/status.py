"""The state of the broker and, as far as it knows, of its cluster; and the wait for a state of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from broker.control.bodies import NumberRange
from broker.control.waiting import (
    DEFAULT_TIMEOUT_MS,
    Source,
    TimeoutMs,
    coordinator_changes,
    key_events,
    metadata_changes,
    until,
    wait_result,
)
from broker.network.listeners import join_host_port
from protocol.plural import count_of

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.control.control import Control
    from broker.replication.partition import Partition


class ClusterWait(NamedTuple):
    """A wait for a number of active brokers and, of each partition of some topics, of replicas in sync."""

    brokers: Annotated[int, NumberRange(0)] = 0
    isr: dict[str, int] | None = None
    committed: bool = False
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
    """Wait until this broker's metadata has so many active brokers, and so many replicas in sync.

    With `committed`, also until all records of the partitions that it leads are committed, and its shards are loaded.
    """
    broker = control.broker
    isr = body.isr or {}
    ends_s = broker.loop.time() + body.timeout_ms / 1000

    def obstacles() -> list[str]:
        few = [] if _active(broker) >= body.brokers else [f"{count_of(_active(broker), 'broker')} active"]
        return [*few, *_lagging(broker, isr), *(_uncommitted(broker) if body.committed else ())]

    while True:  # once for each set of partitions that are led here
        led = _led(broker)
        met_or_changed = await until(
            lambda led=led: not obstacles() or (body.committed and _led(broker) != led),  # type: ignore[misc]
            _sources(broker, led if body.committed else ()),
            max(0, round((ends_s - broker.loop.time()) * 1000)),
        )
        left = obstacles()
        if not (met_or_changed and left):
            break
    wanted = f"the cluster has {count_of(body.brokers, 'active broker')}"
    if isr:
        wanted += f" and replicas in sync: {', '.join(f'{count} of {topic}' for topic, count in isr.items())}"
    if body.committed:
        wanted += ", and what this broker leads is committed"
    return wait_result(not left, wanted, body.timeout_ms, await describe_broker(control), "; ".join(left))


def _led(broker: BrokerServer) -> list[Partition]:
    return [partition for partition in broker.replicas.partitions if partition.is_leader]


def _sources(broker: BrokerServer, led: Sequence[Partition]) -> list[Source]:
    keys = [key for partition in led for key in (partition, partition.log)]
    runtimes = [one.runtime for one in (broker.group_coordinator, broker.transaction_coordinator) if one is not None]
    return [metadata_changes(broker.raft), key_events(broker.purgatory, keys), *map(coordinator_changes, runtimes)]


def _uncommitted(broker: BrokerServer) -> list[str]:
    """Return what this broker leads and is not committed or loaded."""
    behind = [
        f"{partition} is committed up to {partition.high_watermark} of {partition.log.log_end_offset}"
        for partition in _led(broker)
        if partition.high_watermark < partition.log.log_end_offset
    ]
    if broker.group_coordinator is not None and broker.group_coordinator.runtime.is_loading:
        behind.append("its groups are loading")
    if broker.transaction_coordinator is not None and broker.transaction_coordinator.runtime.is_loading:
        behind.append("its transactions are loading")
    return behind


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
