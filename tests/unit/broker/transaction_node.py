"""A `Node` that coordinates transactions: the real coordinator on real partitions, in virtual time."""

from __future__ import annotations

from typing import Any

from broker.coordinator.runtime.context import ProducerIdAndEpoch
from broker.coordinator.transaction.context import EndTransaction, InitProducerId, ProducerResult
from broker.coordinator.transaction.records import read_transaction, read_transactional_id
from broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from broker.coordinator.transaction.transaction_partitions import TransactionPartitions
from controller.topic_names import TRANSACTION_STATE
from protocol.record_batch import end_txn_marker, read_header
from protocol.records.metadata import FeatureLevelRecord
from storage.checkpoint import TopicPartition
from storage.log.config import LogConfig
from tests.unit.broker.node import NODE_ID, Node, batches

FOLLOWER_ID = 2
PARTITIONS = 3


class TransactionNode:
    """The node, its coordinator, the topic `x` of two partitions, and the steps that tests repeat."""

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def transactions(self) -> TransactionCoordinator:
        return self.node.broker.transactions

    def host(self, *, replicated: bool = False, min_isr: int = 1, level: int = 2) -> TransactionNode:
        """Create the topics and coordinate; if replicated, nothing is committed until `replicate`."""
        self.node.commit(FeatureLevelRecord(name="transaction.version", feature_level=level))
        replicas = (NODE_ID, FOLLOWER_ID) if replicated else (NODE_ID,)
        config = LogConfig(min_insync_replicas=min_isr)
        self.node.create(TRANSACTION_STATE, partitions=PARTITIONS, replicas=replicas, config=config)
        self.node.create("x", partitions=2)
        return self

    def restart(self) -> None:
        """Restart the coordinator from the logs."""
        self.transactions.stop()
        self.node.broker.transaction_coordinator = None
        self.node.replicas.on_leadership(TRANSACTION_STATE, self.transactions.runtime.leadership_changed)
        self.settle()

    def replicate(self) -> None:
        """Let the follower fetch to the log end."""
        for index in range(PARTITIONS):
            partition = self.node.partition(TRANSACTION_STATE, index)
            self.node.follower_fetch(partition, FOLLOWER_ID, partition.log.log_end_offset, 0)
        self.settle()

    def settle(self) -> None:
        """Run all callbacks that are ready."""
        for _ in range(4):
            self.node.pass_time(0.001)

    def index(self, name: str = "t") -> int:
        return self.transactions.runtime.partition_of(name)

    def init(self, name: str = "t", *, timeout_ms: int = 60_000) -> Any:
        return self.transactions.init_producer_id(InitProducerId(name, timeout_ms))

    def producer(self, name: str = "t", *, timeout_ms: int = 60_000) -> ProducerIdAndEpoch:
        """Return a new producer."""
        return self.producer_of(self.init(name, timeout_ms=timeout_ms))

    def producer_of(self, outcome: Any) -> ProducerIdAndEpoch:
        """Return the producer in a result of `init`."""
        result: ProducerResult = self.node.wait(outcome)
        assert result.error == 0, result
        return ProducerIdAndEpoch(result.producer_id, result.producer_epoch)

    def add(self, producer: ProducerIdAndEpoch, *partitions: TopicPartition, name: str = "t") -> Any:
        return self.transactions.add_partitions(name, producer, TransactionPartitions.of(partitions or [("x", 0)]), 2)

    def end(self, producer: ProducerIdAndEpoch, *, commit: bool = True, name: str = "t", version: int = 2) -> Any:
        return self.transactions.end(EndTransaction(name, *producer, commit, version))

    def state(self, name: str = "t") -> str | None:
        metadata = self.transactions.describe(name)
        return None if metadata is None else metadata.state.display_name

    def records(self, name: str = "t") -> list[str]:
        """Return the states in the records of the id."""
        found = []
        for record in self.node.stored(TRANSACTION_STATE, self.index(name)):
            assert record.key is not None
            if read_transactional_id(record.key) == name:
                state = "deleted" if record.value is None else read_transaction(record.value).state.display_name
                found.append(state)
        return found

    def markers(self, topic: str = "x", index: int = 0) -> list[str]:
        """Return the markers in a partition: decision, producer epoch and coordinator epoch."""
        log = self.node.partition(topic, index).log
        found = []
        for batch in batches(log.read(0, 1 << 30, limit_offset=log.log_end_offset).slices):
            marker = end_txn_marker(memoryview(batch)) if read_header(batch).is_control else None
            if marker is not None:
                what = "commit" if marker.committed else "abort"
                found.append(f"{what} {read_header(batch).producer_epoch} by {marker.coordinator_epoch}")
        return found
