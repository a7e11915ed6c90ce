"""The metadata image: the state of the cluster after one batch of the metadata log, as immutable values.

The next batch yields a new image (`image_builder.py`) and leaves the old one unchanged, so a reader that holds an image
sees a consistent state for any length of time. Kafka: `MetadataImage`.

Topic ids and directory ids are Kafka's, uuids of 16 bytes. `snapshot.py` writes an image as records.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from controller.acls.acls_image import AclsImage
from controller.delegation_tokens import DelegationToken
from controller.scram import ScramCredential

NO_LEADER = -1


class DirectoryId:
    """Reserved ids (those below 100) in place of a replica's directory (KIP-858; Kafka: `DirectoryId`)."""

    MIGRATING = bytes(16)
    """In a directory that the controller does not know: the record has none, or the broker registered none."""
    UNASSIGNED = (1).to_bytes(16, "big")
    """In no directory yet: the broker will choose one."""
    LOST = (2).to_bytes(16, "big")
    """In a failed directory of unknown id."""


class ResourceType(IntEnum):
    """The type of a resource that has configurations (Kafka: `ConfigResource.Type`)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Endpoint(NamedTuple):
    """A listener's address; `security_protocol` is Kafka's number, 0 for PLAINTEXT."""

    host: str
    port: int
    security_protocol: int = 0


class BrokerImage(NamedTuple):
    """A registered broker (Kafka: `BrokerRegistration`); a fenced one neither leads nor is sent to clients."""

    broker_id: int
    epoch: int
    incarnation_id: bytes
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[bytes, ...]
    cordoned_directories: tuple[bytes, ...] | None = None

    @property
    def active(self) -> bool:
        """Return whether the broker can lead and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def open_directories(self) -> tuple[bytes, ...]:
        """Return the directories that take new replicas: all that are not cordoned (KIP-1066)."""
        cordoned = self.cordoned_directories
        if not cordoned:
            return self.directories
        return tuple(directory for directory in self.directories if directory not in cordoned)


class ControllerImage(NamedTuple):
    """A registered controller: its endpoints and the levels of features that it supports."""

    controller_id: int
    incarnation_id: bytes
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]]


class PartitionImage(NamedTuple):
    """A partition's replicas and leader (Kafka: `PartitionRegistration`); `directories` has one id for each replica."""

    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...]
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


class TopicImage(NamedTuple):
    """A topic and its partitions by index."""

    name: str
    topic_id: bytes
    partitions: Mapping[int, PartitionImage]


NO_CONFIGS: Mapping[str, str] = MappingProxyType({})

# The entity of a quota: (entity type, name), sorted by type; None as name is the type's default (KIP-546).
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
NO_QUOTAS: Mapping[str, float] = MappingProxyType({})


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Return the entity of a quota from its (entity type, name) in any order."""
    return tuple(sorted(parts, key=itemgetter(0)))


class MetadataImage:
    """The cluster's metadata up to and including the record at `offset`, written in `epoch`.

    `memo` is a cache for values that readers derive from this image, kept while it is the newest. `lasting_memo` is
    shared with the images built on this one: its users check by identity that their input is unchanged, and bound what
    they keep.
    """

    __slots__ = (
        "_configs",
        "_topics",
        "_topics_by_id",
        "acls",
        "brokers",
        "client_quotas",
        "cluster_id",
        "controllers",
        "delegation_tokens",
        "epoch",
        "features",
        "lasting_memo",
        "memo",
        "next_producer_id",
        "offset",
        "scram_credentials",
    )

    def __init__(
        self,
        *,
        cluster_id: str,
        offset: int = -1,
        epoch: int = 0,
        brokers: Mapping[int, BrokerImage] | None = None,
        controllers: Mapping[int, ControllerImage] | None = None,
        topics: Mapping[str, TopicImage] | None = None,
        topics_by_id: Mapping[bytes, TopicImage] | None = None,
        configs: Mapping[tuple[int, str], Mapping[str, str]] | None = None,
        client_quotas: Mapping[QuotaEntity, Mapping[str, float]] | None = None,
        features: Mapping[str, int] | None = None,
        next_producer_id: int = 0,
        acls: AclsImage | None = None,
        scram_credentials: Mapping[tuple[str, int], ScramCredential] | None = None,
        delegation_tokens: Mapping[str, DelegationToken] | None = None,
        lasting_memo: dict[Any, Any] | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.offset = offset
        self.epoch = epoch
        self.brokers: Mapping[int, BrokerImage] = brokers or {}
        self.controllers: Mapping[int, ControllerImage] = controllers or {}
        self._topics: Mapping[str, TopicImage] = topics or {}
        self._topics_by_id: Mapping[bytes, TopicImage] = topics_by_id or {}
        self._configs: Mapping[tuple[int, str], Mapping[str, str]] = configs or {}
        self.client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = client_quotas or {}
        self.features: Mapping[str, int] = features or {}
        self.next_producer_id = next_producer_id
        self.acls = AclsImage() if acls is None else acls
        # By user and number of the mechanism.
        self.scram_credentials: Mapping[tuple[str, int], ScramCredential] = scram_credentials or {}
        # By id.
        self.delegation_tokens: Mapping[str, DelegationToken] = delegation_tokens or {}
        self.memo: dict[Any, Any] = {}
        self.lasting_memo: dict[Any, Any] = {} if lasting_memo is None else lasting_memo

    def topic(self, name: str) -> TopicImage | None:
        """Return the topic of that name, or None."""
        return self._topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        """Return the topic of that id, or None."""
        return self._topics_by_id.get(topic_id)

    def topics(self) -> Collection[TopicImage]:
        """Return all topics in order of creation."""
        return self._topics.values()

    def topics_by_name(self) -> Mapping[str, TopicImage]:
        """Return all topics by name."""
        return self._topics

    def topics_by_id(self) -> Mapping[bytes, TopicImage]:
        """Return all topics by id."""
        return self._topics_by_id

    def configs(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return the configs set for one resource; for BROKER, the empty name stands for all brokers."""
        return self._configs.get((resource_type, name), NO_CONFIGS)

    def all_configs(self) -> Mapping[tuple[int, str], Mapping[str, str]]:
        """Return all configs that are set, by (resource type, resource name)."""
        return self._configs

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        """Return a partition, or None."""
        found = self._topics.get(topic)
        return None if found is None else found.partitions.get(partition)
