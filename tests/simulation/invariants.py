"""Invariants that are checked in the brokers after every event.

Of each replica: log start <= high watermark <= log end; the high watermark, the leader epoch and the partition epoch
only increase while a process lives; with fsync=always and a leader alone in the ISR, only synced records are committed.
Of all replicas of a partition: one leader per epoch; the records below a high watermark are the same everywhere, for
ever, and at least `min.insync.replicas` replicas have them; members of the ISR have everything below the leader's high
watermark and truncate none of it. For the metadata see `quorum_invariants.py`.

Only partitions of the event's host that changed since the last check are checked.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from protocol.errors import KafkaError
from simulation.cluster import Host, World
from simulation.violation import Invariant
from storage.log.config import FSYNC_ALWAYS
from tests.simulation.committed import Committed, Compacted
from tests.simulation.copies import Copies
from tests.simulation.quorum_invariants import QuorumInvariants

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.replication.partition import Partition
    from simulation.loop import Loop
    from tests.simulation.history import History
    from tests.simulation.transaction_invariants import TransactionInvariants


class Seen:
    """A replica after the last event of its process."""

    __slots__ = (
        "cleaned_to",
        "epochs",
        "high_watermark",
        "known",
        "leader_epoch",
        "log_end",
        "log_start",
        "partition",
        "partition_epoch",
        "recovery_point",
        "starts",
    )

    def __init__(self, starts: int, partition: Partition) -> None:
        self.starts = starts
        self.partition = partition
        self.known = False
        self.high_watermark = self.log_start = self.log_end = 0
        self.leader_epoch = self.partition_epoch = self.recovery_point = -1
        self.cleaned_to: int | None = None
        self.epochs: frozenset[int] = frozenset()


def _epochs(partition: Partition) -> frozenset[int]:
    """Return the leader epochs of the records of a replica."""
    return frozenset(entry.epoch for entry in partition.log.leader_epochs.entries)


class Invariants:
    """Check a host after each of its events."""

    def __init__(self, world: World, history: History, transactions: TransactionInvariants | None = None) -> None:
        self._world = world
        self._transactions = transactions
        self._history = history
        self._hosts = {host.name: host for host in world.hosts}
        self._seen: dict[tuple[str, bytes, int], Seen] = {}
        self._seen_of: dict[str, dict[Partition, Seen]] = {host.name: {} for host in world.hosts}
        self._leaders: dict[tuple[int, bytes, int, int], str] = {}
        self._committed: dict[tuple[int, bytes, int], Committed] = {}
        self._synced: dict[tuple[str, bytes, int], int] = {}
        self._durable: dict[tuple[str, bytes, int], int] = {}
        self._losses: dict[tuple[str, bytes, int], int] = {}
        """Number of power cuts that had taken committed records when a replica's high watermark last advanced."""
        self._quorum = QuorumInvariants(world)
        self._copies = Copies()
        self.checks = 0

    def after(self, loop: Loop) -> None:
        host = self._hosts.get(loop.host)
        if host is None or host.loop is not loop or host.state in ("off", "failed"):
            return
        if host.node is None:
            return
        self.checks += 1
        self._quorum.look(host, host.node.shared.raft)
        broker = host.node.broker
        if broker is None:
            return
        self._look_for_deleted_groups(broker)
        seen_of = self._seen_of[host.name]
        changed = []
        for partition in broker.replicas.partitions:
            seen = seen_of.get(partition)
            if seen is not None:
                log = partition.log
                if (
                    log.log_end_offset == seen.log_end
                    and log.high_watermark == seen.high_watermark
                    and log.recovery_point == seen.recovery_point
                    and log.log_start_offset == seen.log_start
                    and log.cleaned_to == seen.cleaned_to
                    and partition.leader_epoch == seen.leader_epoch
                    and partition.partition_epoch == seen.partition_epoch
                ):
                    continue
            seen_of[partition] = self._look(host, partition)
            changed.append(partition)
        if changed and self._transactions is not None:
            self._transactions.after(host, changed)

    def _look_for_deleted_groups(self, broker: BrokerServer) -> None:
        """Let a group without offsets begin anew once its coordinator has deleted it."""
        for group, known in list(self._history.groups.items()):
            if known.may_be_deleted and broker.group_coordinator is not None:
                with suppress(KafkaError):  # another broker coordinates it, or this one is loading it
                    if group not in broker.groups.shard_of(group).groups:
                        self._history.group_gone(group)

    def _look(self, host: Host, partition: Partition) -> Seen:
        """Check a replica that has changed; return its new state."""
        log = partition.log
        key = (host.name, partition.topic_id, partition.index)
        seen = self._seen.get(key)
        truncated = seen is not None and seen.starts == host.starts and log.log_end_offset < seen.log_end
        self._copies.seen(key, partition.leader_epoch, log.log_end_offset, truncated=truncated)
        if seen is None or seen.starts != host.starts or seen.partition is not partition:
            seen = self._seen[key] = Seen(host.starts, partition)  # removed and added again: starts anew
        high_watermark = log.high_watermark
        check, name = self._world.check, f"{partition} on {host.name}"
        check(
            Invariant.OFFSETS_ARE_ORDERED,
            log.log_start_offset <= high_watermark <= log.log_end_offset,
            f"{name}: start {log.log_start_offset}, high watermark {high_watermark}, end {log.log_end_offset}",
        )
        losses = self._committed_of(host, partition).losses
        check(
            Invariant.HIGH_WATERMARK_RISES,
            high_watermark >= seen.high_watermark
            or self._may_drop_records(host, partition, seen, losses > self._losses.get(key, 0)),
            f"the high watermark of {name} went back from {seen.high_watermark} to {high_watermark}",
        )
        if high_watermark > seen.high_watermark:
            self._losses[key] = losses
        check(
            Invariant.EPOCHS_RISE, partition.leader_epoch >= seen.leader_epoch, f"the leader epoch of {name} went back"
        )
        check(
            Invariant.EPOCHS_RISE,
            partition.partition_epoch >= seen.partition_epoch,
            f"the partition epoch of {name} went back",
        )
        self._durable[key] = max(self._durable.get(key, 0), log.recovery_point)
        # The recovery point moves back if an index is not synced; the records are synced.
        rolled = log.recovery_point + 1 == log.segments[-1].base_offset
        self._synced[key] = max(self._synced.get(key, 0), log.recovery_point + rolled)
        if partition.is_leader:
            self._check_leader(host, partition, name, seen, high_watermark > seen.high_watermark)
        if log.log_end_offset < seen.log_end:
            self._check_producers(partition, name)
        if not partition.is_leader and log.log_end_offset < seen.log_end:
            self._check_cut(host, partition, name)
        place = (partition.topic, partition.index)
        self._world.committed[place] = max(self._world.committed.get(place, 0), high_watermark)
        if not log.offline:
            host.disk.observed = True
            if high_watermark > seen.high_watermark:
                self._check_committed(host, partition, name, high_watermark)
            if log.cleaned_to != seen.cleaned_to:
                self._world.count("compactions" if seen.known else "starts of compacted logs")
                self._committed_of(host, partition).compacted(log, check, name)
            host.disk.observed = False
        seen.known = True
        seen.cleaned_to = log.cleaned_to
        seen.high_watermark = high_watermark
        seen.log_end, seen.log_start = log.log_end_offset, log.log_start_offset
        seen.leader_epoch, seen.partition_epoch = partition.leader_epoch, partition.partition_epoch
        seen.recovery_point = log.recovery_point
        seen.epochs = _epochs(partition)
        known = self._history.partitions.get((partition.topic, partition.index))
        if known is not None and len(host.cluster) == 1:
            known.durable_end = max(known.durable_end, log.recovery_point)
            known.log_end = max(known.log_end, log.log_end_offset)
        return seen

    def _may_drop_records(self, host: Host, partition: Partition, seen: Seen, others_lost: bool) -> bool:
        """Return whether a replica may drop committed records.

        A replica whose disk failed during a reset is empty and offline: no client reads it again. A follower starts
        from the leader's log start if it shares nothing with the leader's log, and truncates records that a power cut
        took from all other replicas.

        A leader that fetched its log after compaction does not know epochs of which no record remained. A follower
        that returns with such an epoch truncates to the epoch before, and fetches the compacted records again.
        """
        log = partition.log
        if partition.is_leader or log.log_end_offset >= seen.log_end:
            return log.offline
        dropped = seen.epochs - _epochs(partition)
        compacted = (
            bool(dropped)
            and "compact" in log.config.cleanup_policy
            and any(
                replica.is_leader and not dropped & _epochs(replica)
                for other in host.cluster
                if other.broker is not None
                and (replica := other.broker.replicas.find(partition.topic_id, partition.index)) is not None
            )
        )
        return log.offline or others_lost or compacted or log.log_end_offset == log.log_start_offset

    def _check_producers(self, partition: Partition, name: str) -> None:
        """Check that a truncated log keeps no producer state of truncated batches."""
        log = partition.log
        self._world.count("truncations")
        for producer_id, entry in log.producers.producers.items():
            last = entry.batches[-1].last_offset if entry.batches else -1
            self._world.check(
                Invariant.PRODUCERS_ARE_TRUNCATED,
                last < log.log_end_offset,
                f"{name} ends at {log.log_end_offset}, and knows of a batch up to {last} of producer {producer_id}",
            )

    def _in_sync(self, host: Host, partition: Partition) -> bool:
        """Return whether the controller has the current process of a broker in the ISR."""
        newest = self._world.newest
        if newest is None:
            return False
        state = newest.partition(partition.topic, partition.index)
        topic = newest.topic(partition.topic)
        if state is None or topic is None or topic.topic_id != partition.topic_id:
            return False
        known = newest.brokers.get(host.node_id)
        epoch = -1 if host.broker is None else host.broker.broker_epoch
        return host.node_id in state.isr and known is not None and known.epoch == epoch

    def _check_cut(self, host: Host, partition: Partition, name: str) -> None:
        known = self._committed.get((id_of(host), partition.topic_id, partition.index))
        if known is not None and self._in_sync(host, partition):
            end = partition.log.log_end_offset
            self._world.check(
                Invariant.ISR_KEEPS_COMMITTED,
                end >= known.end,
                f"{name} is in sync, and cut to {end}, before {known.end}",
            )

    def _check_leader(self, host: Host, partition: Partition, name: str, seen: Seen, commits: bool) -> None:
        cluster = id_of(host)
        leader = (cluster, partition.topic_id, partition.index, partition.leader_epoch)
        known = self._leaders.setdefault(leader, host.name)
        self._world.check(
            Invariant.ONE_LEADER, known == host.name, f"{name} leads in epoch {partition.leader_epoch}, as {known} does"
        )
        log = partition.log
        if commits and self._world.clustered:
            self._check_copies(host, partition, name, seen)
        in_sync = partition.isr
        own = commits if self._world.clustered else in_sync <= {host.node_id}
        if own and log.config.barnabas_fsync == FSYNC_ALWAYS:
            synced = self._synced[host.name, partition.topic_id, partition.index]
            self._world.check(
                Invariant.COMMITTED_IS_SYNCED,
                log.high_watermark <= max(synced, log.log_start_offset),
                f"{name} is committed up to {log.high_watermark}, and synced up to {synced}",
            )
        newest = self._world.newest
        state = None if newest is None else newest.partition(partition.topic, partition.index)
        if state is None or state.partition_epoch > partition.partition_epoch:
            return
        for other in host.cluster:
            if other is host or other.broker is None or other.state in ("off", "failed"):
                continue
            if other.node_id not in in_sync or not self._in_sync(other, partition):
                continue
            replica = other.broker.replicas.find(partition.topic_id, partition.index)
            if replica is not None:
                self._world.check(
                    Invariant.ISR_HAS_COMMITTED,
                    replica.log.log_end_offset >= log.high_watermark,
                    f"{name}: {other.name} is in sync, and ends at {replica.log.log_end_offset}, before"
                    f" {log.high_watermark}",
                )

    def _check_copies(self, host: Host, partition: Partition, name: str, seen: Seen) -> None:
        """Check that at least `min.insync.replicas` replicas have, or had when they fetched, the committed records."""
        missing = 0
        for other in host.cluster:
            if other.node_id in partition.replicas and other is not host and other.broker is not None:
                replica = other.broker.replicas.find(partition.topic_id, partition.index)
                if replica is not None and replica.log.log_end_offset < partition.high_watermark:
                    # The process that had these records may have died since, without the leader's knowledge. In one
                    # event, a leader that was paused may count it and receive a later epoch.
                    key = (other.name, partition.topic_id, partition.index)
                    epochs = range(min(seen.leader_epoch, partition.leader_epoch), partition.leader_epoch + 1)
                    had = max(self._copies.end(key, epoch) for epoch in epochs)
                    missing += had < partition.high_watermark
        copies = len(partition.replicas) - missing
        needed = min(partition.log.config.min_insync_replicas, len(partition.replicas))
        self._world.check(
            Invariant.COMMITTED_BY_MIN_ISR,
            copies >= needed,
            f"{name} is committed up to {partition.high_watermark} by {copies} replicas",
        )
        # One event may apply several ISR changes, and the high watermark may advance before the last of them.
        if partition.partition_epoch > seen.partition_epoch + 1:
            return
        # A replica of a proposed ISR does not count: the controller may elect a leader without these records.
        self._world.check(
            Invariant.COMMITTED_BY_MIN_ISR,
            len(partition.isr) >= needed,
            f"{name} is committed up to {partition.high_watermark} with {len(partition.isr)} replicas in sync",
        )

    def _check_committed(self, host: Host, partition: Partition, name: str, high_watermark: int) -> None:
        """Compare the committed records with those committed there before on any replica; keep the new ones."""
        log = partition.log
        begin = max(log.log_start_offset, self._seen[host.name, partition.topic_id, partition.index].high_watermark)
        self._committed_of(host, partition).advance(log, begin, high_watermark, self._world.check, name)

    def _committed_of(self, host: Host, partition: Partition) -> Committed:
        key = (id_of(host), partition.topic_id, partition.index)
        known = self._committed.get(key)
        if known is None:
            compacted = "compact" in partition.log.config.cleanup_policy
            known = self._committed[key] = Compacted() if compacted else Committed()
        return known

    def power_cut(self, host: Host) -> None:
        """Forget what a broker may lose: with `fsync=always` nothing if it is the only one, but followers do not wait
        for syncs.
        """
        for (cluster, topic_id, index), known in self._committed.items():
            if cluster != id_of(host):
                continue
            partition = host.broker.replicas.find(topic_id, index) if host.broker is not None else None
            # Do not use the current recovery point: a killed process had synced more than its checkpoint shows.
            durable = self._durable.get((host.name, topic_id, index), 0)
            if partition is None or self._world.clustered or partition.log.config.barnabas_fsync != FSYNC_ALWAYS:
                known.lose(durable)


def id_of(host: Host) -> int:
    """Return a number for the cluster of a host."""
    return host.world.hosts.index(host.cluster[0])
