"""Transcripts of a partition's leader elections in the controller.

cluster brokers=3 [min=2] [elr] [unclean]        create brokers 1 to 3, and a partition with a replica on each
fence brokers=(1,2)                              their sessions expire, and they are fenced together
unfence broker=1                                 it sends a heartbeat again
stop broker=1                                    it requests a controlled shutdown
restart broker=1 [unclean]                       it registers again, after a clean or an unclean shutdown
fail-directory broker=1                          its only log directory fails; it continues with an empty one
alter isr=(1,2) [by=1] [epoch=0] [recovered]     a leader sends AlterPartition, with the newest epochs by default
elect [unclean]                                  an ElectLeaders request: preferred, or unclean
balance                                          elect preferred leaders
configure name=value                             alter a configuration of the topic
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.commands.alter_configs import AlterConfigOp, incremental_alter_configs
from controller.commands.alter_partition import alter_partition
from controller.commands.elect_leaders import elect_leaders
from controller.commands.periodic_elections import balance_leaders
from controller.image import NO_LEADER, ResourceType
from controller.leader_and_isr_updates import (
    on_broker_unfenced,
    on_brokers_fenced,
    on_controlled_shutdown,
    on_directory_failure,
    on_unclean_restart,
)
from controller.partition_change import MIN_ISR, RECOVERED, RECOVERING, UNCLEAN
from controller.records import broker_record
from protocol.errors import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.unit.controller.cluster import Cluster, directory
from tests.unit.controller.partitions import enable_elr, registration, topic_of

if TYPE_CHECKING:
    from tests.scripts.conftest import Script, Step


class Machine:
    """A controller with one partition."""

    def __init__(self) -> None:
        self.topic = Cluster()

    def __call__(self, step: Step) -> str:
        answer = getattr(self, step.command.replace("-", "_"))(step)
        return "\n".join(filter(None, (answer, self.state())))

    def state(self) -> str:
        partition = self.topic.partition("t")
        leader = "no leader" if partition.leader == NO_LEADER else f"{partition.leader} leads"
        shown = [f"{leader} in epoch {partition.leader_epoch}", f"isr {_numbers(partition.isr)}"]
        if partition.eligible_leader_replicas:
            shown.append(f"eligible {_numbers(partition.eligible_leader_replicas)}")
        if partition.last_known_elr:
            shown.append(f"last led by {_numbers(partition.last_known_elr)}")
        if partition.leader_recovery_state == RECOVERING:
            shown.append("recovering")
        return ", ".join([*shown, f"partition epoch {partition.partition_epoch}"])

    def cluster(self, step: Step) -> None:
        brokers = step.int("brokers")
        self.topic = Cluster(brokers=brokers)
        configs = {MIN_ISR: step.get("min", "1"), UNCLEAN: step.get("unclean", "false")}
        self.topic.create("t", assignments={0: list(range(1, brokers + 1))}, configs=configs)
        if step.flag("elr"):
            enable_elr(self.topic)

    def fence(self, step: Step) -> None:
        brokers = [int(broker) for broker in step.list("brokers")]
        changes = on_brokers_fenced(self.topic.image, brokers, self.topic.settings)
        self.topic.replay([*changes, *(registration(self.topic, broker, fenced=1) for broker in brokers)])

    def unfence(self, step: Step) -> None:
        broker = step.int("broker")
        changes = on_broker_unfenced(self.topic.image, broker, self.topic.settings)
        self.topic.replay([registration(self.topic, broker, fenced=-1), *changes])

    def stop(self, step: Step) -> None:
        broker = step.int("broker")
        changes = on_controlled_shutdown(self.topic.image, broker, self.topic.settings)
        self.topic.replay([registration(self.topic, broker, in_controlled_shutdown=1), *changes])

    def restart(self, step: Step) -> None:
        image, broker = self.topic.image, step.int("broker")
        if step.flag("unclean"):
            changes = on_unclean_restart(image, broker, self.topic.settings)
        else:
            changes = on_brokers_fenced(image, (broker,), self.topic.settings)
        anew = image.brokers[broker]._replace(epoch=image.offset + 1, fenced=True, in_controlled_shutdown=False)
        self.topic.replay([broker_record(anew), *changes])

    def fail_directory(self, step: Step) -> None:
        broker = step.int("broker")
        changes = on_directory_failure(self.topic.image, broker, [directory(broker)], self.topic.settings)
        self.topic.replay([*changes, registration(self.topic, broker, log_dirs=[directory(broker, 1)])])

    def alter(self, step: Step) -> str:
        partition, brokers = self.topic.partition("t"), self.topic.image.brokers
        leader = step.int("by", partition.leader)
        Wanted = AlterPartitionRequest.Topic.Partition  # noqa: N806
        wanted = Wanted(
            partition_index=0,
            leader_epoch=step.int("epoch", partition.leader_epoch),
            partition_epoch=step.int("partition-epoch", partition.partition_epoch),
            new_isr_with_epochs=[
                Wanted.BrokerState(broker_id=broker, broker_epoch=brokers[broker].epoch)
                for broker in map(int, step.list("isr"))
            ],
            leader_recovery_state=RECOVERED if step.flag("recovered") else partition.leader_recovery_state,
        )
        topics = [AlterPartitionRequest.Topic(topic_id=topic_of(self.topic, "t").topic_id, partitions=[wanted])]
        request = AlterPartitionRequest(broker_id=leader, broker_epoch=brokers[leader].epoch, topics=topics)
        response = self.topic.apply(partial(alter_partition, request=request, settings=self.topic.settings))
        return ErrorCode(response.topics[0].partitions[0].error_code).name

    def elect(self, step: Step) -> str:
        topics = [ElectLeadersRequest.Topic(topic="t", partitions=[0])]
        request = ElectLeadersRequest(election_type=int(step.flag("unclean")), topic_partitions=topics)
        response = self.topic.apply(partial(elect_leaders, request=request, settings=self.topic.settings))
        return ErrorCode(response.replica_election_results[0].partition_result[0].error_code).name

    def balance(self, _: Step) -> None:
        self.topic.apply(partial(balance_leaders, settings=self.topic.settings))

    def configure(self, step: Step) -> str:
        Resource = IncrementalAlterConfigsRequest.Resource  # noqa: N806
        configs = [
            Resource.Config(name=name, config_operation=AlterConfigOp.SET, value=value)
            for name, value in step.arguments.items()
        ]
        resource = Resource(resource_type=ResourceType.TOPIC, resource_name="t", configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        command = partial(incremental_alter_configs, request=request, settings=self.topic.settings)
        return ErrorCode(self.topic.apply(command).responses[0].error_code).name


def _numbers(replicas: tuple[int, ...]) -> str:
    return ",".join(map(str, replicas)) or "empty"


def test_partitions(script: Script) -> None:
    script.run(Machine())
