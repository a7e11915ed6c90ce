"""Configurations that elections depend on, and what follows when they change.

    min.insync.replicas              who is eligible was found with the old number, and is forgotten (KIP-966)
    unclean.leader.election.enable   where it allows it now, partitions without a leader get one at once

While the feature eligible.leader.replicas.version is on, all brokers must agree on min.insync.replicas: it is set for
all of them when the feature is raised, and cannot be removed there or be another for one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from controller.commands.periodic_elections import elect_unclean_leaders
from controller.configs.effective import StaticSettings
from controller.image import MetadataImage, ResourceType
from controller.image_builder import apply_records
from controller.partition_change import MIN_ISR, UNCLEAN, tracks_eligible
from protocol.errors import ErrorCode, KafkaError
from protocol.records.metadata import ClearElrRecord, ConfigRecord
from protocol.schema import Message


def check_min_isr(image: MetadataImage, broker: str, named: Collection[str], new: Mapping[str, str]) -> None:
    """Raise KafkaError INVALID_CONFIG if brokers would not agree on min.insync.replicas, and have to.

    A request sets or removes those that are `named`, also such as are not set, of one broker or of all, the empty name;
    `new` is what is set then.
    """
    if MIN_ISR not in named or not tracks_eligible(image):
        return
    if broker:
        problem = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        raise KafkaError(ErrorCode.INVALID_CONFIG, problem)
    if MIN_ISR not in new:
        problem = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        raise KafkaError(ErrorCode.INVALID_CONFIG, problem)


def consequences(image: MetadataImage, records: Sequence[ConfigRecord], settings: StaticSettings) -> list[Message]:
    """Return what follows from changes of configurations, to be written after them."""
    follows: list[Message] = []
    if tracks_eligible(image):
        follows += (
            # Without a name, it is for all topics.
            ClearElrRecord(topic_name=record.resource_name if record.resource_type == ResourceType.TOPIC else "")
            for record in records
            if record.name == MIN_ISR
        )
    if any(record.name == UNCLEAN for record in records):
        changed = apply_records(image, [*records, *follows], offset=image.offset, epoch=image.epoch)
        follows += elect_unclean_leaders(changed, settings).records
    return follows


def agreement_records(image: MetadataImage, settings: StaticSettings) -> list[ConfigRecord]:
    """Return what has all brokers agree on min.insync.replicas, to be written when the feature is raised."""
    records = []
    if MIN_ISR not in image.configs(ResourceType.BROKER, ""):
        records.append(_broker_config("", str(settings[MIN_ISR])))
    for (resource_type, name), configs in image.configured().items():
        if resource_type == ResourceType.BROKER and name and MIN_ISR in configs:
            records.append(_broker_config(name, None))
    return records


def _broker_config(name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.BROKER, resource_name=name, name=MIN_ISR, value=value)
