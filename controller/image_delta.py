"""The difference between two images, as records (Kafka: `MetadataDelta`).

A node that fell behind continues from a snapshot and never reads the records in between. Subscribers to records get
these instead: first records that remove what is gone, then records for everything in the new image.
"""

from collections.abc import Iterator

from controller.image import MetadataImage, ResourceType
from controller.snapshot import image_records
from protocol.records.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from protocol.schema import Message


def difference(before: MetadataImage, after: MetadataImage) -> Iterator[Message]:
    """Yield records that turn `before` into `after`; features and controllers are never removed."""
    for topic in before.topics():
        if after.topic_by_id(topic.topic_id) is None:
            yield RemoveTopicRecord(topic_id=topic.topic_id)
    for broker in before.brokers.values():
        if broker.broker_id not in after.brokers:
            yield UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch)
    for (resource_type, resource_name), values in before.all_configs().items():
        kept = after.all_configs().get((resource_type, resource_name), {})
        for name in sorted(values.keys() - kept.keys()):
            if resource_type != ResourceType.TOPIC or after.topic(resource_name) is not None:
                yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=None)
    for entity, quotas in before.client_quotas.items():
        parts = [ClientQuotaRecord.Entity(entity_type=kind, entity_name=name) for kind, name in entity]
        for key in sorted(quotas.keys() - after.client_quotas.get(entity, {}).keys()):
            yield ClientQuotaRecord(entity=parts, key=key, value=0.0, remove=True)
    for name, mechanism in sorted(before.scram_credentials.keys() - after.scram_credentials.keys()):
        yield RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)
    for token_id in sorted(before.delegation_tokens.keys() - after.delegation_tokens.keys()):
        yield RemoveDelegationTokenRecord(token_id=token_id)
    for acl_id in sorted(before.acls.by_id.keys() - after.acls.by_id.keys()):
        yield RemoveAccessControlEntryRecord(id=acl_id)
    for record in image_records(after):
        if not _exists(record, before):
            yield record


def _exists(record: Message, before: MetadataImage) -> bool:
    """Return whether a record is of a topic or an ACL that is in `before`: neither can be created again."""
    if isinstance(record, TopicRecord):
        return before.topic_by_id(record.topic_id) is not None
    return isinstance(record, AccessControlEntryRecord) and record.id in before.acls.by_id
