"""Elections against a model of the replicas' logs: no clean election loses a committed record.

A replica's log is its length. Records on the whole ISR are committed; while eligible leader replicas are kept, only
as long as the ISR has at least `min.insync.replicas` members. The election of a replica that may lack committed
records must set the leader recovery state to RECOVERING.
"""

from functools import partial

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from controller.commands.alter_partition import alter_partition
from controller.commands.periodic_elections import balance_leaders, elect_unclean_leaders
from controller.image import NO_LEADER, PartitionImage, ResourceType
from controller.leader_and_isr_updates import (
    on_broker_unfenced,
    on_brokers_fenced,
    on_controlled_shutdown,
    on_unclean_restart,
)
from controller.partition_change import RECOVERED, RECOVERING, UNCLEAN
from controller.records import broker_record
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from protocol.records.metadata import ConfigRecord
from protocol.schema import Message
from tests.examples import examples
from tests.unit.controller.cluster import Cluster
from tests.unit.controller.partitions import enable_elr, registration, topic_of

REPLICAS = (1, 2, 3)
BROKERS = st.sampled_from(REPLICAS)


class Elections(RuleBasedStateMachine):
    """One partition on three brokers; `held` is the number of records on each broker."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(brokers=len(REPLICAS))
        self.cluster.create("t", assignments={0: list(REPLICAS)})
        self.elr_enabled = False
        self.min_isr = 1
        self.held = dict.fromkeys(REPLICAS, 0)
        self.committed = 0
        self.epoch_began = 0

    @initialize(elr_enabled=st.booleans(), min_isr=st.integers(1, 3))
    def begin(self, elr_enabled: bool, min_isr: int) -> None:
        self.elr_enabled, self.min_isr = elr_enabled, min_isr
        self.cluster.settings.explicit["min.insync.replicas"] = str(min_isr)
        if elr_enabled:
            enable_elr(self.cluster)

    @property
    def partition(self) -> PartitionImage:
        return self.cluster.partition("t")

    def active(self, broker: int) -> bool:
        return self.cluster.image.brokers[broker].active

    def replay(self, *records: Message) -> None:
        """Apply records; replicas truncate to the log of a new leader."""
        before = self.partition
        self.cluster.replay(records)
        after = self.partition
        assert after.partition_epoch >= before.partition_epoch
        assert after.leader_epoch >= before.leader_epoch
        if after.leader != before.leader:
            assert after.leader_epoch > before.leader_epoch
        if after.leader_epoch > before.leader_epoch and after.leader != NO_LEADER:
            length = self.held[after.leader]
            if after.leader not in before.isr + before.eligible_leader_replicas:
                assert (after.isr, after.leader_recovery_state) == ((after.leader,), RECOVERING)
                self.committed = min(self.committed, length)
            assert length >= self.committed, "a clean election has lost committed records"
            self.held = {broker: min(held, length) for broker, held in self.held.items()}
            self.epoch_began = length

    def commit(self) -> None:
        isr = self.partition.isr
        if len(isr) >= self.min_isr or not self.elr_enabled:
            self.committed = max(self.committed, min(self.held[broker] for broker in isr))

    @rule(records=st.integers(1, 3))
    def write(self, records: int) -> None:
        if self.partition.leader != NO_LEADER:
            self.held[self.partition.leader] += records
            self.commit()

    @rule(brokers=st.sets(BROKERS, min_size=1))
    def fetch(self, brokers: set[int]) -> None:
        leader = self.partition.leader
        if leader != NO_LEADER:
            self.held.update({broker: self.held[leader] for broker in brokers if self.active(broker)})
            self.commit()

    @rule(records=st.integers(1, 3))
    def write_and_fetch(self, records: int) -> None:
        self.write(records)
        self.fetch(set(REPLICAS))

    @rule(brokers=st.sets(BROKERS, min_size=1))
    def fence(self, brokers: set[int]) -> None:
        gone = [broker for broker in sorted(brokers) if not self.cluster.image.brokers[broker].fenced]
        changes = on_brokers_fenced(self.cluster.image, gone, self.cluster.settings)
        self.replay(*changes, *(registration(self.cluster, broker, fenced=1) for broker in gone))

    @rule(broker=BROKERS)
    def unfence(self, broker: int) -> None:
        if self.cluster.image.brokers[broker].fenced:
            changes = on_broker_unfenced(self.cluster.image, broker, self.cluster.settings)
            self.replay(registration(self.cluster, broker, fenced=-1), *changes)

    @rule(broker=BROKERS)
    def stop(self, broker: int) -> None:
        if self.active(broker):
            changes = on_controlled_shutdown(self.cluster.image, broker, self.cluster.settings)
            self.replay(registration(self.cluster, broker, in_controlled_shutdown=1), *changes)

    @rule(broker=BROKERS, clean=st.booleans(), lost=st.integers(1, 5))
    def restart(self, broker: int, clean: bool, lost: int) -> None:
        """Register a broker again; after an unclean shutdown the end of its log is lost."""
        image = self.cluster.image
        on_restart = (
            partial(on_brokers_fenced, image, (broker,)) if clean else partial(on_unclean_restart, image, broker)
        )
        # Without eligible leader replicas the last in-sync replica must not lose records: nothing would reveal it.
        if not clean and (self.elr_enabled or self.partition.isr != (broker,)):
            self.held[broker] = max(0, self.held[broker] - lost)
        anew = image.brokers[broker]._replace(epoch=image.offset + 1, fenced=True, in_controlled_shutdown=False)
        self.replay(broker_record(anew), *on_restart(self.cluster.settings))

    @rule(order=st.permutations(REPLICAS), unclean=st.sets(BROKERS))
    def power_cut(self, order: list[int], unclean: set[int]) -> None:
        """Stop all brokers and restart them one by one, some without the ends of their logs."""
        self.fence(set(REPLICAS))
        for broker in order:
            self.restart(broker, clean=broker not in unclean, lost=2)
            self.unfence(broker)

    @rule(wanted=st.sets(BROKERS), recovered=st.booleans())
    def alter_isr(self, wanted: set[int], recovered: bool) -> None:
        """Propose, as the leader, an ISR of members and of replicas caught up with the high watermark and its epoch."""
        partition, leader = self.partition, self.partition.leader
        if leader == NO_LEADER:
            return
        enough = max(self.committed, self.epoch_began)
        isr = {one for one in wanted if one in partition.isr or self.held[one] >= enough} | {leader}
        brokers = self.cluster.image.brokers
        Wanted = AlterPartitionRequest.Topic.Partition  # noqa: N806
        requested = Wanted(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[
                Wanted.BrokerState(broker_id=one, broker_epoch=brokers[one].epoch) for one in sorted(isr)
            ],
            leader_recovery_state=RECOVERED if recovered else partition.leader_recovery_state,
        )
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=brokers[leader].epoch,
            topics=[AlterPartitionRequest.Topic(topic_id=topic_of(self.cluster, "t").topic_id, partitions=[requested])],
        )
        records, response = alter_partition(self.cluster.image, request, self.cluster.settings)
        self.replay(*records)
        self.check_answer(response, isr, recovering=requested.leader_recovery_state == RECOVERING)
        self.commit()

    def check_answer(self, response: AlterPartitionResponse, isr: set[int], *, recovering: bool) -> None:
        [topic] = response.topics
        [answer] = topic.partitions
        if recovering and len(isr) > 1:
            assert answer.error_code == ErrorCode.INVALID_REQUEST
        elif not all(self.active(one) for one in isr):
            assert answer.error_code == ErrorCode.INELIGIBLE_REPLICA
        else:
            assert answer.error_code == ErrorCode.NONE
            assert set(self.partition.isr) == isr == set(answer.isr)
            assert answer.partition_epoch == self.partition.partition_epoch

    @rule()
    def balance(self) -> None:
        self.replay(*balance_leaders(self.cluster.image, self.cluster.settings).records)

    @rule(allowed=st.booleans())
    def allow_unclean(self, allowed: bool) -> None:
        value = "true" if allowed else None
        self.cluster.replay(
            [ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", name=UNCLEAN, value=value)]
        )
        self.replay(*elect_unclean_leaders(self.cluster.image, self.cluster.settings).records)

    @invariant()
    def leader_is_active_and_in_sync(self) -> None:
        leader = self.partition.leader
        assert leader == NO_LEADER or (leader in self.partition.isr and self.active(leader))

    @invariant()
    def isr_and_eligible_replicas_are_disjoint(self) -> None:
        partition = self.partition
        known = partition.isr + partition.eligible_leader_replicas
        assert len(set(known)) == len(known)
        assert set(known) <= set(partition.replicas)
        assert partition.isr or self.elr_enabled
        if len(partition.isr) >= self.min_isr or not self.elr_enabled:
            assert not partition.eligible_leader_replicas

    @invariant()
    def inactive_replica_is_in_sync_only_without_a_leader(self) -> None:
        if not all(self.active(broker) for broker in self.partition.isr):
            assert self.partition.leader == NO_LEADER
            assert not self.elr_enabled

    @invariant()
    def last_known_leader_is_set_while_there_is_no_leader(self) -> None:
        partition = self.partition
        assert len(partition.last_known_elr) <= 1
        assert bool(partition.last_known_elr) == (partition.leader == NO_LEADER and self.elr_enabled)

    @invariant()
    def partition_without_leader_has_no_active_candidate(self) -> None:
        partition = self.partition
        if partition.leader == NO_LEADER:
            assert not any(self.active(one) for one in partition.isr or partition.eligible_leader_replicas)


def test_rule_8_no_clean_election_loses_a_committed_record() -> None:
    """Also shows rule 7: an ISR takes effect once the controller has committed it."""
    run_state_machine_as_test(
        Elections, settings=settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
    )
