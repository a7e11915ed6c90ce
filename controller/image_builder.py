"""Application of the metadata log's records to an image (Kafka: `MetadataDelta.replay`).

A builder copies each collection that a batch changes once: the dictionary of topics if a topic changes, the partitions
of a topic if one of them changes. Changes of ten thousand partitions of one topic in one batch cost one copy of ten
thousand references. The records are those of Kafka's metadata module, with Kafka's meaning.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from controller.acls.acls_image import AclsBuilder
from controller.delegation_tokens import DelegationToken, token_of
from controller.image import (
    NO_CONFIGS,
    NO_QUOTAS,
    BrokerImage,
    ControllerImage,
    DirectoryId,
    MetadataImage,
    PartitionImage,
    QuotaEntity,
    ResourceType,
    TopicImage,
    quota_entity,
)
from controller.records import acl_of, endpoints_of, features_of
from controller.scram import ScramCredential
from protocol.errors import InvariantError
from protocol.records.metadata import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)

# PartitionChangeRecord.leader if the leader does not change (Kafka: `LeaderConstants.NO_LEADER_CHANGE`).
LEADER_UNCHANGED = -2


def apply_records(image: MetadataImage, records: Iterable[object], *, offset: int, epoch: int) -> MetadataImage:
    """Return the image after `records`; the last of them is at `offset` in the metadata log."""
    builder = ImageBuilder(image)
    for record in records:
        builder.replay(record)
    return builder.build(offset=offset, epoch=epoch)


class ImageBuilder:
    """Changes to an image; `build` returns the image with all of them."""

    def __init__(self, base: MetadataImage) -> None:
        self._base = base
        self._brokers: dict[int, BrokerImage] | None = None
        self._controllers: dict[int, ControllerImage] | None = None
        self._topics: dict[str, TopicImage] | None = None
        self._topics_by_id: dict[bytes, TopicImage] | None = None
        # The partitions of changed topics, by topic id.
        self._copied_partitions: dict[bytes, dict[int, PartitionImage]] = {}
        self._configs: dict[tuple[int, str], Mapping[str, str]] | None = None
        self._client_quotas: dict[QuotaEntity, Mapping[str, float]] | None = None
        self._features: dict[str, int] | None = None
        self._next_producer_id = base.next_producer_id
        self._acls: AclsBuilder | None = None
        self._scram_credentials: dict[tuple[str, int], ScramCredential] | None = None
        self._delegation_tokens: dict[str, DelegationToken] | None = None

    def replay(self, record: object) -> None:
        """Apply one record; InvariantError if it cannot follow the previous ones or its type is unknown."""
        handler = _REPLAY.get(type(record))
        if handler is None:
            raise InvariantError(f"the metadata log has a {type(record).__name__}, which this version cannot apply")
        handler(self, record)

    def build(self, *, offset: int, epoch: int) -> MetadataImage:
        """Return the image after all replayed records; the builder must not be used afterwards."""
        base = self._base
        return MetadataImage(
            cluster_id=base.cluster_id,
            offset=offset,
            epoch=epoch,
            brokers=base.brokers if self._brokers is None else self._brokers,
            controllers=base.controllers if self._controllers is None else self._controllers,
            topics=base.topics_by_name() if self._topics is None else self._topics,
            topics_by_id=base.topics_by_id() if self._topics_by_id is None else self._topics_by_id,
            configs=base.all_configs() if self._configs is None else self._configs,
            client_quotas=base.client_quotas if self._client_quotas is None else self._client_quotas,
            features=base.features if self._features is None else self._features,
            next_producer_id=self._next_producer_id,
            acls=base.acls if self._acls is None else self._acls.build(),
            scram_credentials=base.scram_credentials if self._scram_credentials is None else self._scram_credentials,
            delegation_tokens=base.delegation_tokens if self._delegation_tokens is None else self._delegation_tokens,
            lasting_memo=base.lasting_memo,
        )

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        cordoned = record.cordoned_log_dirs
        self._put_broker(
            BrokerImage(
                broker_id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                endpoints=endpoints_of(record.end_points),
                features=features_of(record.features),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                directories=tuple(record.log_dirs),
                cordoned_directories=None if cordoned is None else tuple(cordoned),
            )
        )

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        self._mutable_brokers().pop(record.broker_id)

    def _change_registration(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        if record.fenced:
            broker = broker._replace(fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = broker._replace(in_controlled_shutdown=record.in_controlled_shutdown > 0)
        if record.log_dirs:
            broker = broker._replace(directories=tuple(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            broker = broker._replace(cordoned_directories=tuple(record.cordoned_log_dirs))
        self._put_broker(broker)

    def _fence_broker(self, record: FenceBrokerRecord) -> None:
        self._put_broker(self._broker(record.id, record.epoch)._replace(fenced=True))

    def _unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        self._put_broker(self._broker(record.id, record.epoch)._replace(fenced=False))

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        if self._controllers is None:
            self._controllers = dict(self._base.controllers)
        self._controllers[record.controller_id] = ControllerImage(
            record.controller_id,
            record.incarnation_id,
            endpoints_of(record.end_points),
            features_of(record.features),
        )

    def _add_topic(self, record: TopicRecord) -> None:
        if self._current_topics().get(record.name) is not None:
            raise InvariantError(f"the metadata log creates topic {record.name} twice")
        partitions: dict[int, PartitionImage] = {}
        self._copied_partitions[record.topic_id] = partitions
        self._put_topic(TopicImage(record.name, record.topic_id, partitions))

    def _add_partition(self, record: PartitionRecord) -> None:
        self._partitions_of(record.topic_id)[record.partition_id] = PartitionImage(
            partition=record.partition_id,
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            # Records written before KIP-858 have no directories.
            directories=tuple(record.directories) or (DirectoryId.MIGRATING,) * len(record.replicas),
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            leader_recovery_state=record.leader_recovery_state,
            eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
        )

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        partitions = self._partitions_of(record.topic_id)
        old = partitions.get(record.partition_id)
        if old is None:
            raise InvariantError(f"the metadata log changes partition {record.partition_id}, which does not exist")
        changes: dict[str, Any] = {"partition_epoch": old.partition_epoch + 1}
        if record.leader != LEADER_UNCHANGED:
            changes["leader"] = record.leader
            changes["leader_epoch"] = old.leader_epoch + 1
        if record.leader_recovery_state >= 0:
            changes["leader_recovery_state"] = record.leader_recovery_state
        for name in _CHANGEABLE:
            value = getattr(record, name)
            if value is not None:
                changes[name] = tuple(value)
        partitions[record.partition_id] = old._replace(**changes)

    def _clear_elr(self, record: ClearElrRecord) -> None:
        for topic in list(self._current_topics().values()):
            if record.topic_name not in ("", topic.name):
                continue
            for index, partition in list(topic.partitions.items()):
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    self._partitions_of(topic.topic_id)[index] = partition._replace(
                        eligible_leader_replicas=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1
                    )

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topic_of(record.topic_id)
        self._mutable_topics().pop(topic.name)
        self._mutable_topics_by_id().pop(topic.topic_id)
        self._copied_partitions.pop(topic.topic_id, None)
        if (ResourceType.TOPIC, topic.name) in self._current_configs():
            self._mutable_configs().pop((ResourceType.TOPIC, topic.name))

    def _set_config(self, record: ConfigRecord) -> None:
        key = (record.resource_type, record.resource_name)
        values = dict(self._current_configs().get(key, NO_CONFIGS))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            self._mutable_configs()[key] = values
        else:
            self._mutable_configs().pop(key, None)

    def _set_quota(self, record: ClientQuotaRecord) -> None:
        if self._client_quotas is None:
            self._client_quotas = dict(self._base.client_quotas)
        entity = quota_entity((part.entity_type, part.entity_name) for part in record.entity)
        values = dict(self._client_quotas.get(entity, NO_QUOTAS))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self._client_quotas[entity] = values
        else:
            self._client_quotas.pop(entity, None)

    def _set_feature(self, record: FeatureLevelRecord) -> None:
        if self._features is None:
            self._features = dict(self._base.features)
        if record.feature_level == 0:
            self._features.pop(record.name, None)
        else:
            self._features[record.name] = record.feature_level

    def _set_producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id

    def _add_acl(self, record: AccessControlEntryRecord) -> None:
        self._mutable_acls().add(record.id, acl_of(record))

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self._mutable_acls().remove(record.id)

    def _set_scram_credential(self, record: UserScramCredentialRecord) -> None:
        self._mutable_scram_credentials()[record.name, record.mechanism] = ScramCredential(
            bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
        )

    def _remove_scram_credential(self, record: RemoveUserScramCredentialRecord) -> None:
        if self._mutable_scram_credentials().pop((record.name, record.mechanism), None) is None:
            raise InvariantError(f"the metadata log removes a SCRAM credential of {record.name!r} that does not exist")

    def _mutable_scram_credentials(self) -> dict[tuple[str, int], ScramCredential]:
        if self._scram_credentials is None:
            self._scram_credentials = dict(self._base.scram_credentials)
        return self._scram_credentials

    def _set_delegation_token(self, record: DelegationTokenRecord) -> None:
        self._mutable_delegation_tokens()[record.token_id] = token_of(record)

    def _remove_delegation_token(self, record: RemoveDelegationTokenRecord) -> None:
        # An unknown token is no error, as in Kafka's `DelegationTokenDelta`.
        self._mutable_delegation_tokens().pop(record.token_id, None)

    def _mutable_delegation_tokens(self) -> dict[str, DelegationToken]:
        if self._delegation_tokens is None:
            self._delegation_tokens = dict(self._base.delegation_tokens)
        return self._delegation_tokens

    def _ignore(self, record: object) -> None:
        """Skip a record without effect on the image."""

    def _current_topics(self) -> Mapping[str, TopicImage]:
        return self._base.topics_by_name() if self._topics is None else self._topics

    def _current_configs(self) -> Mapping[tuple[int, str], Mapping[str, str]]:
        return self._base.all_configs() if self._configs is None else self._configs

    def _mutable_brokers(self) -> dict[int, BrokerImage]:
        if self._brokers is None:
            self._brokers = dict(self._base.brokers)
        return self._brokers

    def _mutable_topics(self) -> dict[str, TopicImage]:
        if self._topics is None:
            self._topics = dict(self._base.topics_by_name())
        return self._topics

    def _mutable_topics_by_id(self) -> dict[bytes, TopicImage]:
        if self._topics_by_id is None:
            self._topics_by_id = dict(self._base.topics_by_id())
        return self._topics_by_id

    def _mutable_configs(self) -> dict[tuple[int, str], Mapping[str, str]]:
        if self._configs is None:
            self._configs = dict(self._base.all_configs())
        return self._configs

    def _mutable_acls(self) -> AclsBuilder:
        if self._acls is None:
            self._acls = self._base.acls.change()
        return self._acls

    def _broker(self, broker_id: int, epoch: int) -> BrokerImage:
        broker = (self._base.brokers if self._brokers is None else self._brokers).get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise InvariantError(
                f"the metadata log changes broker {broker_id} in epoch {epoch}, which is not registered"
            )
        return broker

    def _put_broker(self, broker: BrokerImage) -> None:
        self._mutable_brokers()[broker.broker_id] = broker

    def _topic_of(self, topic_id: bytes) -> TopicImage:
        by_id = self._base.topics_by_id() if self._topics_by_id is None else self._topics_by_id
        topic = by_id.get(topic_id)
        if topic is None:
            raise InvariantError(f"the metadata log changes topic {topic_id.hex()}, which does not exist")
        return topic

    def _put_topic(self, topic: TopicImage) -> None:
        self._mutable_topics()[topic.name] = topic
        self._mutable_topics_by_id()[topic.topic_id] = topic

    def _partitions_of(self, topic_id: bytes) -> dict[int, PartitionImage]:
        partitions = self._copied_partitions.get(topic_id)
        if partitions is None:
            topic = self._topic_of(topic_id)
            partitions = self._copied_partitions[topic_id] = dict(topic.partitions)
            self._put_topic(topic._replace(partitions=partitions))
        return partitions


# Fields of a PartitionChangeRecord that are null if unchanged.
_CHANGEABLE = (
    "isr",
    "replicas",
    "removing_replicas",
    "adding_replicas",
    "directories",
    "eligible_leader_replicas",
    "last_known_elr",
)

_REPLAY: dict[type, Callable[[ImageBuilder, Any], None]] = {
    RegisterBrokerRecord: ImageBuilder._register_broker,
    UnregisterBrokerRecord: ImageBuilder._unregister_broker,
    BrokerRegistrationChangeRecord: ImageBuilder._change_registration,
    FenceBrokerRecord: ImageBuilder._fence_broker,
    UnfenceBrokerRecord: ImageBuilder._unfence_broker,
    RegisterControllerRecord: ImageBuilder._register_controller,
    TopicRecord: ImageBuilder._add_topic,
    PartitionRecord: ImageBuilder._add_partition,
    ClearElrRecord: ImageBuilder._clear_elr,
    PartitionChangeRecord: ImageBuilder._change_partition,
    RemoveTopicRecord: ImageBuilder._remove_topic,
    ConfigRecord: ImageBuilder._set_config,
    ClientQuotaRecord: ImageBuilder._set_quota,
    UserScramCredentialRecord: ImageBuilder._set_scram_credential,
    RemoveUserScramCredentialRecord: ImageBuilder._remove_scram_credential,
    DelegationTokenRecord: ImageBuilder._set_delegation_token,
    RemoveDelegationTokenRecord: ImageBuilder._remove_delegation_token,
    FeatureLevelRecord: ImageBuilder._set_feature,
    ProducerIdsRecord: ImageBuilder._set_producer_ids,
    AccessControlEntryRecord: ImageBuilder._add_acl,
    RemoveAccessControlEntryRecord: ImageBuilder._remove_acl,
    # `metadata_transaction` holds the records of a transaction until it ends.
    BeginTransactionRecord: ImageBuilder._ignore,
    EndTransactionRecord: ImageBuilder._ignore,
    AbortTransactionRecord: ImageBuilder._ignore,
    NoOpRecord: ImageBuilder._ignore,
}
