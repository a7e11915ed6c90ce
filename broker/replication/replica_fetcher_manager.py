"""The replica fetchers of a broker (Kafka: `ReplicaFetcherManager`), one for each leader it follows.

`ReplicaManager` reports each replica that it places or removes. A fetcher carries all partitions followed from one
leader, and is closed with the last of them. The ISRs of partitions led here belong to `isr_manager`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from broker.replication.fetcher_state import FetcherState, FetchLimits
from broker.replication.isr_manager import IsrManager
from broker.replication.replica_fetcher import LeaderConnection, ReplicaFetcher
from protocol.records.metadata import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

if TYPE_CHECKING:
    import asyncio

    from broker.quotas.replication_quota import ReplicationQuota
    from broker.replication.partition import Partition
    from broker.replication.replica_manager import ReplicaManager
    from controller.configs.effective import StaticSettings
    from controller.image import MetadataImage
    from protocol.schema import Message

_BROKER_RECORDS = (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

_log = logging.getLogger("broker.replication")


def fetch_limits(settings: StaticSettings) -> FetchLimits:
    """Return the limits in the broker's settings."""
    return FetchLimits(
        max_bytes=settings["replica.fetch.max.bytes"],
        response_max_bytes=settings["replica.fetch.response.max.bytes"],
        min_bytes=settings["replica.fetch.min.bytes"],
        max_wait_ms=settings["replica.fetch.wait.max.ms"],
        backoff_ms=settings["replica.fetch.backoff.ms"],
    )


class ReplicaFetcherManager:
    """The replica fetchers and the ISR maintenance of this broker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        node_id: int,
        replicas: ReplicaManager,
        *,
        cluster_id: str,
        connect_broker: Callable[[int], LeaderConnection],
        send_to_controller: Callable[[Message], asyncio.Future[Message | None]],
        broker_epoch: Callable[[], int],
        limits: FetchLimits,
        lag_max_ms: int,
        quota: ReplicationQuota | None = None,
    ) -> None:
        """Fetch nothing before `start`.

        `connect_broker` opens a connection to a broker for a fetcher's sole use, and keeps it at the address in the
        metadata. `send_to_controller` sends to the active controller (result None: no response). `broker_epoch` returns
        this broker's epoch. `lag_max_ms` is `replica.lag.time.max.ms`. `quota` limits what throttled replicas fetch.
        """
        self._loop = loop
        self._node_id = node_id
        self._replicas = replicas
        self._cluster_id = cluster_id
        self._connect_broker = connect_broker
        self._broker_epoch = broker_epoch
        self._limits = limits
        self._quota = quota
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._leaders: dict[Partition, int] = {}
        self._stopped = False
        self.isr = IsrManager(
            loop,
            node_id,
            replicas,
            send_to_controller=send_to_controller,
            broker_epoch=broker_epoch,
            lag_max_ms=lag_max_ms,
        )

    @property
    def leaders(self) -> dict[int, int]:
        """Return the number of partitions followed from each leader."""
        return {broker: len(fetcher.state) for broker, fetcher in self._fetchers.items()}

    def lags(self) -> Iterator[tuple[int, Partition, int]]:
        """Yield each followed partition with its leader and its lag in records (Kafka: FetcherLagMetrics)."""
        for leader, fetcher in self._fetchers.items():
            for partition, lag in fetcher.state.lags():
                yield leader, partition, lag

    def start(self) -> None:
        """Register with the `ReplicaManager`, before its `load`; start the ISR checks."""
        self._replicas.replication = self
        self.isr.start()

    def stop(self) -> None:
        """Close all fetchers; send no more ISR proposals."""
        self._stopped = True
        self.isr.stop()
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._leaders.clear()

    def apply(self, _old: MetadataImage, _new: MetadataImage, records: Iterable[object]) -> Iterator[None]:
        """Check all ISRs again if a record concerns a broker; called after `ReplicaManager.apply`."""
        if any(isinstance(record, _BROKER_RECORDS) for record in records):
            yield from self.isr.check_all()

    # Called by the replica manager (`replica_manager.Replicating`).

    def partition_changed(self, partition: Partition) -> None:
        """Follow the leader in the metadata; if that is this broker, check the ISR."""
        if self._stopped:
            return
        leader = -1 if partition.is_leader else partition.leader
        if self._leaders.get(partition, -1) != leader:
            self.partition_removed(partition)
        if leader >= 0:
            self._leaders[partition] = leader
            fetcher = self._fetcher(leader)
            fetcher.state.follow(self._replicas.follower_replica(partition))
            fetcher.send_now()
        elif partition.is_leader:
            self.isr.check(partition)

    def partition_removed(self, partition: Partition) -> None:
        """Stop following the leader of a replica."""
        leader = self._leaders.pop(partition, None)
        if leader is None:
            return
        fetcher = self._fetchers[leader]
        fetcher.state.unfollow(partition.topic_id, partition.index)
        if not len(fetcher.state):
            fetcher.close()
            del self._fetchers[leader]

    def log_start_moved(self, partition: Partition) -> None:
        """Send the leader a follower's log start that moved locally."""
        leader = self._leaders.get(partition)
        if leader is not None:
            fetcher = self._fetchers[leader]
            fetcher.state.log_start_moved(partition.topic_id, partition.index)
            fetcher.send_now()

    def follower_fetched(self, partition: Partition, broker: int) -> None:
        """Check whether a replica outside the ISR may join."""
        if not self._stopped:
            self.isr.follower_fetched(partition, broker)

    def _fetcher(self, leader: int) -> ReplicaFetcher:
        found = self._fetchers.get(leader)
        if found is None:
            log_warning = partial(_log.warning, "Fetcher of leader %d: %s", leader)
            state = FetcherState(
                self._node_id, self._cluster_id, self._limits, self._replicas.save_log_starts, log_warning, self._quota
            )
            found = ReplicaFetcher(self._loop, state, self._connect_broker(leader), self._broker_epoch, log_warning)
            self._fetchers[leader] = found
        return found
