"""Configs that elections depend on, and the changes that follow when they change.

    min.insync.replicas              the ELR was built with the old value and is cleared (KIP-966)
    unclean.leader.election.enable   once enabled, partitions without a leader get one at once

While eligible.leader.replicas.version is enabled, min.insync.replicas must be the same on all brokers: it is set for
all of them when the feature is enabled, and cannot be removed there or set for a single broker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from controller.commands.periodic_elections import elect_unclean_leaders
from controller.configs.effective import StaticSettings
from controller.image import MetadataImage, ResourceType
from controller.image_builder import apply_records
from controller.partition_change import MIN_ISR, UNCLEAN, elr_enabled
from protocol.errors import ErrorCode, KafkaError
from protocol.records.metadata import ClearElrRecord, ConfigRecord
from protocol.schema import Message


def check_min_isr(image: MetadataImage, broker: str, named: Collection[str], new: Mapping[str, str]) -> None:
    """Raise KafkaError INVALID_CONFIG if min.insync.replicas would differ between brokers while ELR is enabled.

    `named`: the configs that the request sets or removes; `new`: the configs after it; `broker`: empty for all brokers.
    """
    if MIN_ISR not in named or not elr_enabled(image):
        return
    if broker:
        problem = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        raise KafkaError(ErrorCode.INVALID_CONFIG, problem)
    if MIN_ISR not in new:
        problem = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        raise KafkaError(ErrorCode.INVALID_CONFIG, problem)


def follow_up_records(image: MetadataImage, records: Sequence[ConfigRecord], settings: StaticSettings) -> list[Message]:
    """Return the records that follow from config changes, to be written after them."""
    follow_ups: list[Message] = []
    if elr_enabled(image):
        follow_ups += (
            # The empty name stands for all topics.
            ClearElrRecord(topic_name=record.resource_name if record.resource_type == ResourceType.TOPIC else "")
            for record in records
            if record.name == MIN_ISR
        )
    if any(record.name == UNCLEAN for record in records):
        changed = apply_records(image, [*records, *follow_ups], offset=image.offset, epoch=image.epoch)
        follow_ups += elect_unclean_leaders(changed, settings).records
    return follow_ups


def elr_safety_records(image: MetadataImage, settings: StaticSettings) -> list[ConfigRecord]:
    """Return the records that make min.insync.replicas the same on all brokers, for when ELR is enabled."""
    records = []
    if MIN_ISR not in image.configs(ResourceType.BROKER, ""):
        records.append(_broker_config("", str(settings[MIN_ISR])))
    for (resource_type, name), configs in image.all_configs().items():
        if resource_type == ResourceType.BROKER and name and MIN_ISR in configs:
            records.append(_broker_config(name, None))
    return records


def _broker_config(name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.BROKER, resource_name=name, name=MIN_ISR, value=value)
