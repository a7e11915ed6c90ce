"""Construction of the broker's transaction coordinator from its parts and settings (Kafka: `TransactionConfig`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.runtime.partition_journal import PartitionJournal
from broker.coordinator.transaction.context import TransactionSettings
from broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from controller.image import NO_LEADER
from controller.topic_names import TRANSACTION_STATE
from protocol.compression import Compression

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable
    from random import Random

    from broker.metadata.producer_id_manager import ProducerIdManager
    from broker.network.network_client import NetworkClient
    from broker.replication.replica_manager import ReplicaManager
    from broker.settings import Settings
    from controller.image import MetadataImage
    from protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

TRANSACTION_VERSION = "transaction.version"


def new_transaction_coordinator(
    replicas: ReplicaManager,
    settings: Settings,
    *,
    node_id: int,
    image: Callable[[], MetadataImage],
    loop: asyncio.AbstractEventLoop,
    now_ms: Callable[[], int],
    random: Random,
    producer_ids: ProducerIdManager,
    connect_broker: Callable[[int], NetworkClient],
    write_markers: Callable[[WriteTxnMarkersRequest], WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]],
) -> TransactionCoordinator:
    """Return the coordinator of the transactional ids in the partitions of `__transaction_state` in `replicas`.

    `connect_broker` returns a connection to a broker id; `write_markers` appends markers to partitions led here.
    """

    def partition_count() -> int:
        topic = image().topic(TRANSACTION_STATE)
        return settings["transaction.state.log.num.partitions"] if topic is None else len(topic.partitions)

    def open_journal(index: int) -> PartitionJournal:
        return PartitionJournal(
            replicas,
            replicas.partition(TRANSACTION_STATE, index),
            compression=Compression.NONE,
            timeout_ms=settings["request.timeout.ms"],
            load_bytes=settings["transaction.state.log.load.buffer.size"],
            now_ms=now_ms,
        )

    def leader_of(topic: str, index: int) -> int | None:
        partition = image().partition(topic, index)
        if partition is None:
            return None
        leader = image().brokers.get(partition.leader)
        return NO_LEADER if leader is None or leader.fenced else partition.leader

    return TransactionCoordinator(
        node_id=node_id,
        loop=loop,
        now_ms=now_ms,
        random=random,
        settings=TransactionSettings(
            max_timeout_ms=settings["transaction.max.timeout.ms"],
            expiration_ms=settings["transactional.id.expiration.ms"],
            two_phase_commit_enable=settings["transaction.two.phase.commit.enable"],
        ),
        producer_ids=producer_ids,
        transaction_version=lambda: image().features.get(TRANSACTION_VERSION, 0),
        partition_count=partition_count,
        open_journal=open_journal,
        leader_of=leader_of,
        connect_broker=connect_broker,
        write_markers=write_markers,
    )
