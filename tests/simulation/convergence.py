"""State that is equal everywhere once all faults have healed and no client writes any more.

All nodes have the same metadata; every partition has a leader and all its replicas in the ISR; all replicas end at the
same offset, with everything committed, and have the same bytes. Log starts may differ: a leader that dies during
DeleteRecords may have deleted more than its successor, which never receives that request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.committed import batches_of

if TYPE_CHECKING:
    from controller.image import PartitionImage, TopicImage
    from simulation.cluster import World
    from storage.log.log import Log


def difference(world: World) -> str:
    """Return a description of the first difference; empty if there is none."""
    offsets = {host.name: host.node.shared.raft.applied_offset for host in world.hosts if host.node is not None}
    if len(set(offsets.values())) > 1 or world.newest is None:
        return f"the metadata ends at {offsets}"
    for topic in world.newest.topics():
        for state in topic.partitions.values():
            if found := _difference(world, topic, state):
                return f"{topic.name}-{state.partition}: {found}"
    return ""


def _difference(world: World, topic: TopicImage, state: PartitionImage) -> str:
    if state.leader not in state.replicas or {*state.isr} != {*state.replicas}:
        return f"broker {state.leader} leads, and in sync are {state.isr} of {state.replicas}"
    logs: dict[str, Log] = {}
    for host in world.hosts:
        if host.node_id in state.replicas and host.broker is not None:
            partition = host.broker.replicas.find(topic.topic_id, state.partition)
            if partition is None:
                return f"{host.name} has no replica"
            logs[host.name] = partition.log
    ends = {name: (log.high_watermark, log.log_end_offset) for name, log in logs.items()}
    [end, *more] = {each for pair in ends.values() for each in pair}
    if more:
        return f"high watermarks and log ends are {ends}"
    start = max(log.log_start_offset for log in logs.values())
    [first, *others] = logs
    if "compact" in logs[first].config.cleanup_policy:
        return ""  # each replica is compacted by itself, and compared with the committed records
    expected = batches_of(logs[first], start, end)
    for other in others:
        if batches_of(logs[other], start, end) != expected:
            return f"{first} and {other} have other bytes from {start} to {end}"
    return ""
