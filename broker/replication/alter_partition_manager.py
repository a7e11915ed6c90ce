"""Proposed ISR changes in flight to the controller, which alone decides them (KIP-497, Kafka: `AlterPartitionManager`).

Theory of operation. From its proposal until its result is known, the proposed ISR counts for the high watermark in
addition to the committed one: the controller may have committed it although no response has arrived. All queued
proposals go in one AlterPartition request; one request is in flight at a time.

    proposed   the partition counts the proposed ISR                      -> queued
    queued     the next request carries it, unless it is stale            -> sent
    sent       NONE: the response has the ISR and its partition epoch     -> committed, unless the metadata came first
               INELIGIBLE_REPLICA                                         -> withdrawn; not retried before a backoff
               an error because the partition has changed                 -> dropped: the metadata will follow
               no response, or any other error                            -> queued, and sent again after a backoff

A proposal is stale once the metadata changes the partition epoch or the leader (`Partition.lead`): the partition no
longer counts it, and its response is applied only if it is newer than the metadata. The backoff doubles from
`FIRST_BACKOFF_MS` to `MAX_BACKOFF_MS`.

Pure: `isr_manager` sends; `isr` has the rules for joining and leaving.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from broker.replication.replica_state import NEVER_MS, NO_EPOCH
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from broker.replication.partition import Partition

FIRST_BACKOFF_MS = 50
MAX_BACKOFF_MS = 1000

_STALE = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)

_Topic = AlterPartitionRequest.Topic
_Requested = AlterPartitionRequest.Topic.Partition
_Result = AlterPartitionResponse.Topic.Partition


class PendingIsrChange(NamedTuple):
    """A proposed ISR, and the partition state it was derived from (Kafka: `AlterPartitionItem`)."""

    partition: Partition
    isr: frozenset[int]
    leader_epoch: int
    partition_epoch: int
    epochs: Mapping[int, int]
    """The followers' broker epochs: a follower restarted before the decision may have lost its records (KIP-903)."""

    growth: int
    """Its size minus the size of the ISR that it replaces."""

    @property
    def counts(self) -> bool:
        """Return whether the partition still counts it."""
        one = self.partition
        return one.is_leader and one.proposed_isr is self.isr and not one.unavailable

    def to_request(self, broker_epoch: int) -> _Requested:
        """Return its entry in the request; `broker_epoch` is the leader's own."""
        epochs = {**self.epochs, self.partition.node_id: broker_epoch}
        return _Requested(
            partition_index=self.partition.index,
            leader_epoch=self.leader_epoch,
            new_isr_with_epochs=[
                _Requested.BrokerState(broker_id=broker, broker_epoch=epochs.get(broker, NO_EPOCH))
                for broker in sorted(self.isr)
            ],
            partition_epoch=self.partition_epoch,
        )


class AlterPartitionManager:
    """The proposed ISR changes of all partitions led here."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._queued: dict[tuple[bytes, int], PendingIsrChange] = {}
        self._sent: dict[tuple[bytes, int], PendingIsrChange] = {}
        self._refused: dict[Partition, int] = {}  # until when (ms) no larger ISR is proposed
        self._backoff_ms = FIRST_BACKOFF_MS
        self._not_before_ms = 0
        self.shrinks = 0
        """Committed ISR shrinks that this leader proposed (Kafka: IsrShrinksPerSec)."""
        self.expands = 0
        self.failures = 0
        """Proposed changes that the controller refused (Kafka: FailedIsrUpdatesPerSec)."""

    @property
    def due_ms(self) -> int | None:
        """Return when the next request may be sent; None if none is queued, or one is in flight."""
        return self._not_before_ms if self._queued and not self._sent else None

    def propose(self, partition: Partition, isr: frozenset[int]) -> None:
        """Queue `isr` as the proposed ISR of `partition`, which has no change in flight."""
        growth = len(isr) - len(partition.isr)
        partition.propose(isr)
        epochs = {broker: one.broker_epoch for broker, one in partition.followers.items() if broker in isr}
        proposal = PendingIsrChange(partition, isr, partition.leader_epoch, partition.partition_epoch, epochs, growth)
        self._queued[partition.topic_id, partition.index] = proposal

    def may_expand_from_ms(self, partition: Partition) -> int:
        """Return when a larger ISR may be proposed: after a refusal only after `MAX_BACKOFF_MS`."""
        return self._refused.get(partition, NEVER_MS)

    def request(self, broker_epoch: int, now_ms: int) -> AlterPartitionRequest | None:
        """Return the request to send now, or None; `handle_response` follows each one."""
        if self._sent or now_ms < self._not_before_ms:
            return None
        self._sent = {key: proposal for key, proposal in self._queued.items() if proposal.counts}
        self._queued = {}
        if not self._sent:
            return None
        topics: dict[bytes, _Topic] = {}
        for (topic_id, _), proposal in self._sent.items():
            topic = topics.setdefault(topic_id, _Topic(topic_id=topic_id, partitions=[]))
            topic.partitions.append(proposal.to_request(broker_epoch))
        return AlterPartitionRequest(broker_id=self._node_id, broker_epoch=broker_epoch, topics=list(topics.values()))

    def handle_response(self, response: AlterPartitionResponse | None, now_ms: int) -> list[Partition]:
        """Handle the response to the last request (None: lost); return the partitions whose proposal is decided."""
        sent, self._sent = self._sent, {}
        self._refused = {partition: until_ms for partition, until_ms in self._refused.items() if until_ms > now_ms}
        changed: list[Partition] = []
        if response is not None and response.error_code == ErrorCode.NONE:
            for topic in response.topics:
                for result in topic.partitions:
                    proposal = sent.get((topic.topic_id, result.partition_index))
                    if proposal is not None and self._apply_result(proposal, result, now_ms):
                        del sent[topic.topic_id, result.partition_index]
                        changed.append(proposal.partition)
        retried = {key: proposal for key, proposal in sent.items() if proposal.counts and key not in self._queued}
        self._queued = retried | self._queued
        if retried:
            self._not_before_ms = now_ms + self._backoff_ms
            self._backoff_ms = min(2 * self._backoff_ms, MAX_BACKOFF_MS)
        else:
            self._not_before_ms, self._backoff_ms = now_ms, FIRST_BACKOFF_MS
        return changed

    def _apply_result(self, proposal: PendingIsrChange, result: _Result, now_ms: int) -> bool:
        """Apply the result of a proposal; return False if it is to be sent again."""
        partition, code = proposal.partition, result.error_code
        if code == ErrorCode.NONE:
            self.expands += proposal.growth > 0
            self.shrinks += proposal.growth < 0
            if partition.is_leader and result.leader_epoch == partition.leader_epoch:
                unchanged = result.partition_epoch == proposal.partition_epoch
                if not partition.update_isr(result.isr, result.partition_epoch) and unchanged and proposal.counts:
                    partition.propose(None)
            return True
        self.failures += 1
        if code == ErrorCode.INELIGIBLE_REPLICA:
            if proposal.counts:
                partition.propose(None)
                self._refused[partition] = now_ms + MAX_BACKOFF_MS
            return True
        return code in _STALE
