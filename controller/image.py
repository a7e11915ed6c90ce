"""What the metadata log says, as values that never change.

A `MetadataImage` is the state after one batch of the log. The next batch gives a new image (`image_builder.py`) and
leaves the old one as it was, so whoever holds an image reads a consistent state for as long as he likes.

Ids are Kafka's: topic ids and directory ids are uuids of 16 bytes. How an image is written as records, for a snapshot,
is `snapshot.py`'s business.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

NO_LEADER = -1

# A directory id that says: this replica has not been placed in a directory yet (KIP-858).
UNASSIGNED_DIRECTORY = bytes(16)


class ResourceType(IntEnum):
    """What a configuration belongs to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Endpoint(NamedTuple):
    """An address of a broker; `security_protocol` is Kafka's number, 0 for PLAINTEXT."""

    host: str
    port: int
    security_protocol: int = 0


class BrokerImage(NamedTuple):
    """A registered broker. A fenced one is known but neither leads nor is told to clients."""

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
        """Say whether the broker can be given leadership and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def open_directories(self) -> tuple[bytes, ...]:
        """The directories that take new replicas: all but those that are cordoned (KIP-1066)."""
        cordoned = self.cordoned_directories
        if not cordoned:
            return self.directories
        return tuple(directory for directory in self.directories if directory not in cordoned)


class ControllerImage(NamedTuple):
    """A registered controller: where it is reached, and which levels of features it knows."""

    controller_id: int
    incarnation_id: bytes
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]]


class PartitionImage(NamedTuple):
    """A partition's replicas and leader. `directories` names, replica by replica, where each lies."""

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
    """A topic and its partitions, by index."""

    name: str
    topic_id: bytes
    partitions: Mapping[int, PartitionImage]


NO_CONFIGS: Mapping[str, str] = MappingProxyType({})

# Whom a quota is for: (entity type, name) in the order of the types; no name stands for the type's default (KIP-546).
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
NO_QUOTAS: Mapping[str, float] = MappingProxyType({})


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Return whom a quota is for, from its (entity type, name) in any order."""
    return tuple(sorted(parts, key=itemgetter(0)))


class MetadataImage:
    """The cluster's metadata up to and including the record at `offset`, written in `epoch`.

    `memo` holds what readers derive from this image and want to keep for as long as it is the newest one.
    `lasting_memo` is shared with the images that are built on this one: its readers check that what they derived from
    is unchanged, by identity, and bound what they keep.
    """

    __slots__ = (
        "_configs",
        "_topics",
        "_topics_by_id",
        "brokers",
        "client_quotas",
        "cluster_id",
        "controllers",
        "epoch",
        "features",
        "lasting_memo",
        "memo",
        "next_producer_id",
        "offset",
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
        self.memo: dict[Any, Any] = {}
        self.lasting_memo: dict[Any, Any] = {} if lasting_memo is None else lasting_memo

    def is_active(self, broker_id: int) -> bool:
        """Say whether there is such a broker, and it can be given leadership and be in sync."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    def topic(self, name: str) -> TopicImage | None:
        """Return the topic of that name."""
        return self._topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        """Return the topic of that id."""
        return self._topics_by_id.get(topic_id)

    def topics(self) -> Collection[TopicImage]:
        """Return all topics, in the order of their creation."""
        return self._topics.values()

    def topics_by_name(self) -> Mapping[str, TopicImage]:
        """Return all topics by name."""
        return self._topics

    def topics_by_id(self) -> Mapping[bytes, TopicImage]:
        """Return all topics by id."""
        return self._topics_by_id

    def configs(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return the configurations set for one resource; for BROKER, the empty name stands for all brokers."""
        return self._configs.get((resource_type, name), NO_CONFIGS)

    def configured(self) -> Mapping[tuple[int, str], Mapping[str, str]]:
        """Return all configurations that are set, by (resource type, resource name)."""
        return self._configs

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        """Return one partition."""
        found = self._topics.get(topic)
        return None if found is None else found.partitions.get(partition)
