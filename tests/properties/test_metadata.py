"""Invariants of the metadata under any changes; the log and a snapshot both lead to the same image."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.batches import decode_entries, encode_entry
from controller.commands.brokers import fence_brokers
from controller.commands.heartbeats import broker_heartbeat
from controller.image import NO_LEADER, MetadataImage
from controller.image_builder import apply_records
from controller.raft.log import Entry
from controller.snapshot import image_records
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from protocol.schema import Message
from tests.unit.controller.cluster import Cluster

NAMES = st.sampled_from(["a", "b", "c.d", "c_d"])
BROKERS = st.integers(1, 4)

STEPS = st.one_of(
    st.tuples(st.just("register"), BROKERS, st.sampled_from([None, "r1", "r2"]), st.booleans()),
    st.tuples(st.just("create"), NAMES, st.integers(1, 4), st.integers(1, 3)),
    st.tuples(st.just("grow"), NAMES, st.integers(1, 6)),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("fence"), st.sets(BROKERS)),
    st.tuples(st.just("beat"), BROKERS, st.booleans(), st.booleans(), st.booleans()),
)


def perform(cluster: Cluster, step: Any) -> None:
    match step:
        case ("register", broker_id, rack, fenced):
            cluster.add_broker(broker_id, rack=rack, fenced=fenced)
        case ("create", name, partitions, replicas):
            cluster.create(name, partitions, replicas, configs={"retention.ms": str(partitions)})
        case ("grow", name, count):
            cluster.grow(name, count)
        case ("delete", name):
            cluster.delete(name)
        case ("fence", brokers):
            epochs = {broker: cluster.image.brokers[broker].epoch for broker in brokers & cluster.image.brokers.keys()}
            cluster.apply(lambda image: fence_brokers(image, epochs, cluster.settings))
        case ("beat", broker_id, fence, stop, may_stop) if broker_id in cluster.image.brokers:
            request = BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=cluster.image.brokers[broker_id].epoch,
                current_metadata_offset=cluster.image.offset,
                want_fence=fence,
                want_shut_down=stop,
            )
            command = partial(broker_heartbeat, request=request, settings=cluster.settings, may_stop=may_stop)
            cluster.apply(command)


class Recorded(Cluster):
    """A cluster that keeps its log."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        super().__init__(brokers=2)

    def replay(self, records: Any) -> None:
        if records:
            self.entries.append(Entry(self.image.offset + 1, 1, tuple(records)))
            super().replay(records)


def contents(image: MetadataImage) -> tuple[Any, ...]:
    return (
        dict(image.brokers),
        {name: (topic.topic_id, dict(topic.partitions)) for name, topic in image.topics_by_name().items()},
        image.all_configs(),
        image.features,
        image.next_producer_id,
    )


def check(before: MetadataImage, after: MetadataImage) -> None:
    active = {broker.broker_id for broker in after.brokers.values() if broker.active}
    for topic in after.topics():
        assert after.topic_by_id(topic.topic_id) is topic
        assert list(topic.partitions) == list(range(len(topic.partitions)))
        factor = {len(partition.replicas) for partition in topic.partitions.values()}
        assert len(factor) == 1
        old = before.topic_by_id(topic.topic_id)
        for index, partition in topic.partitions.items():
            assert len(set(partition.replicas)) == len(partition.replicas) == len(partition.directories)
            assert partition.isr
            assert set(partition.isr) <= set(partition.replicas)
            assert partition.leader == NO_LEADER or partition.leader in active & set(partition.isr)
            if partition.leader == NO_LEADER:
                assert not active & set(partition.isr)
            earlier = old.partitions.get(index) if old is not None else None
            if earlier is not None:
                assert partition.leader_epoch >= earlier.leader_epoch
                assert (partition.leader != earlier.leader) <= (partition.leader_epoch > earlier.leader_epoch)
                assert (partition != earlier) == (partition.partition_epoch > earlier.partition_epoch)


@settings(deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_metadata_invariants_hold_after_every_step(steps: list[Any]) -> None:
    cluster = Recorded()
    for step in steps:
        before = cluster.image
        perform(cluster, step)
        check(before, cluster.image)

    data = b"".join(encode_entry(entry, 0) for entry in cluster.entries)
    replayed = MetadataImage(cluster_id="cluster")
    for entry in decode_entries(data):
        replayed = apply_records(replayed, entry.records, offset=entry.next_offset - 1, epoch=entry.epoch)
    assert contents(replayed) == contents(cluster.image)
    assert replayed.offset == cluster.image.offset

    records: list[Message] = list(image_records(cluster.image))
    assert contents(apply_records(MetadataImage(cluster_id="cluster"), records, offset=0, epoch=1)) == contents(
        cluster.image
    )
