"""Changes of ISRs on their way to the controller, which alone decides on them (KIP-497).

Theory of operation. From the moment at which it is proposed until its end is known a change counts for the high
watermark, together with the ISR that is committed: the controller may have committed it though no answer tells so.
All proposals that there are go in one AlterPartition request, and one request is under way at a time.

    proposed   the partition counts on it                                 -> queued
    queued     the next request takes it along, unless it is stale        -> sent
    sent       NONE: the answer says the ISR and its partition epoch      -> committed, unless the metadata was faster
               INELIGIBLE_REPLICA                                         -> withdrawn; not again before a pause
               an error that says that the partition has moved on         -> left to the metadata, which is to follow
               no answer, or any other error                              -> queued, and sent again after a pause

A proposal is stale as soon as the metadata has moved the partition epoch or the leader (`Partition.lead`): nobody
counts on it any more, and its answer is only looked at for news. Pauses double up to a second.

Pure: `isr_driver` sends. Who is to leave or join is `isr`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from broker.replication.replica_state import NEVER_MS, NO_EPOCH
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from broker.replication.partition import Partition

FIRST_PAUSE_MS = 50
LONGEST_PAUSE_MS = 1000

_MOVED_ON = frozenset(
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
_Wanted = AlterPartitionRequest.Topic.Partition
_Answer = AlterPartitionResponse.Topic.Partition


class Proposal(NamedTuple):
    """An ISR that a partition is to have, and the state that it was derived from."""

    partition: Partition
    isr: frozenset[int]
    leader_epoch: int
    partition_epoch: int
    epochs: Mapping[int, int]
    """The followers' broker epochs by then: who restarts before the controller decides may have lost everything."""

    growth: int
    """How many members more it has than the ISR that it is to replace."""

    @property
    def counts(self) -> bool:
        """Say whether the partition still counts on it."""
        one = self.partition
        return one.is_leader and one.proposed_isr is self.isr and not one.unavailable

    def wanted(self, broker_epoch: int) -> _Wanted:
        """Return what the request says of it; `broker_epoch` is the leader's own."""
        epochs = {**self.epochs, self.partition.node_id: broker_epoch}
        return _Wanted(
            partition_index=self.partition.index,
            leader_epoch=self.leader_epoch,
            new_isr_with_epochs=[
                _Wanted.BrokerState(broker_id=broker, broker_epoch=epochs.get(broker, NO_EPOCH))
                for broker in sorted(self.isr)
            ],
            partition_epoch=self.partition_epoch,
        )


class IsrProposals:
    """The changes of all partitions that a broker leads."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._queued: dict[tuple[bytes, int], Proposal] = {}
        self._sent: dict[tuple[bytes, int], Proposal] = {}
        self._refused: dict[Partition, int] = {}  # until when they are let alone
        self._pause_ms = FIRST_PAUSE_MS
        self._not_before_ms = 0
        self.shrinks = 0
        """ISRs that became smaller at this leader's request (Kafka: IsrShrinksPerSec)."""
        self.expands = 0
        self.failures = 0
        """Requested changes that the controller refused (Kafka: FailedIsrUpdatesPerSec)."""

    @property
    def due_ms(self) -> int | None:
        """Return from when on there is a request to send; None while there is none, or one is under way."""
        return self._not_before_ms if self._queued and not self._sent else None

    def propose(self, partition: Partition, isr: frozenset[int]) -> None:
        """Let `partition`, of which no change is on its way, count on `isr`, and the controller hear of it."""
        growth = len(isr) - len(partition.isr)
        partition.propose(isr)
        epochs = {broker: one.broker_epoch for broker, one in partition.followers.items() if broker in isr}
        proposal = Proposal(partition, isr, partition.leader_epoch, partition.partition_epoch, epochs, growth)
        self._queued[partition.topic_id, partition.index] = proposal

    def may_grow_from_ms(self, partition: Partition) -> int:
        """Return from when on a larger ISR may be proposed: not if the last one was refused just now."""
        return self._refused.get(partition, NEVER_MS)

    def request(self, broker_epoch: int, now_ms: int) -> AlterPartitionRequest | None:
        """Return what to send now, to be followed by `answered`; None if there is nothing."""
        if self._sent or now_ms < self._not_before_ms:
            return None
        self._sent = {key: proposal for key, proposal in self._queued.items() if proposal.counts}
        self._queued = {}
        if not self._sent:
            return None
        topics: dict[bytes, _Topic] = {}
        for (topic_id, _), proposal in self._sent.items():
            topic = topics.setdefault(topic_id, _Topic(topic_id=topic_id, partitions=[]))
            topic.partitions.append(proposal.wanted(broker_epoch))
        return AlterPartitionRequest(broker_id=self._node_id, broker_epoch=broker_epoch, topics=list(topics.values()))

    def answered(self, response: AlterPartitionResponse | None, now_ms: int) -> list[Partition]:
        """Take the answer to the latest request, None if there is none; return whose ISR is another now, or stays."""
        sent, self._sent = self._sent, {}
        self._refused = {partition: until_ms for partition, until_ms in self._refused.items() if until_ms > now_ms}
        changed: list[Partition] = []
        if response is not None and response.error_code == ErrorCode.NONE:
            for topic in response.topics:
                for answer in topic.partitions:
                    proposal = sent.get((topic.topic_id, answer.partition_index))
                    if proposal is not None and self._settle(proposal, answer, now_ms):
                        del sent[topic.topic_id, answer.partition_index]
                        changed.append(proposal.partition)
        again = {key: proposal for key, proposal in sent.items() if proposal.counts and key not in self._queued}
        self._queued = again | self._queued
        if again:
            self._not_before_ms = now_ms + self._pause_ms
            self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)
        else:
            self._not_before_ms, self._pause_ms = now_ms, FIRST_PAUSE_MS
        return changed

    def _settle(self, proposal: Proposal, answer: _Answer, now_ms: int) -> bool:
        """Take over what became of a proposal; return False if it is to be sent again."""
        partition, code = proposal.partition, answer.error_code
        if code == ErrorCode.NONE:
            self.expands += proposal.growth > 0
            self.shrinks += proposal.growth < 0
            if partition.is_leader and answer.leader_epoch == partition.leader_epoch:
                unchanged = answer.partition_epoch == proposal.partition_epoch
                if not partition.take_isr(answer.isr, answer.partition_epoch) and unchanged and proposal.counts:
                    partition.propose(None)
            return True
        self.failures += 1
        if code == ErrorCode.INELIGIBLE_REPLICA:
            if proposal.counts:
                partition.propose(None)
                self._refused[partition] = now_ms + LONGEST_PAUSE_MS
            return True
        return code in _MOVED_ON
