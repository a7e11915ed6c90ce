"""What lies between two images, told as records.

A node that had fallen behind goes on from a snapshot, and never sees the records that were in between. Whoever acts on
records is told of these instead: they undo what is gone, and then say all that there is, be it new or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.image import MetadataImage, ResourceType
from controller.snapshot import image_records
from protocol.records.metadata import (
    ClientQuotaRecord,
    ConfigRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from protocol.schema import Message


def difference(before: MetadataImage, after: MetadataImage) -> Iterator[Message]:
    """Yield records that make `after` of `before`, but for features and controllers, which do not go."""
    for topic in before.topics():
        if after.topic_by_id(topic.topic_id) is None:
            yield RemoveTopicRecord(topic_id=topic.topic_id)
    for broker in before.brokers.values():
        if broker.broker_id not in after.brokers:
            yield UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch)
    for (resource_type, resource_name), values in before.configured().items():
        kept = after.configured().get((resource_type, resource_name), {})
        for name in sorted(values.keys() - kept.keys()):
            if resource_type != ResourceType.TOPIC or after.topic(resource_name) is not None:
                yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=None)
    for entity, quotas in before.client_quotas.items():
        parts = [ClientQuotaRecord.Entity(entity_type=kind, entity_name=name) for kind, name in entity]
        for key in sorted(quotas.keys() - after.client_quotas.get(entity, {}).keys()):
            yield ClientQuotaRecord(entity=parts, key=key, value=0.0, remove=True)
    for record in image_records(after):
        if not isinstance(record, TopicRecord) or before.topic_by_id(record.topic_id) is None:
            yield record
