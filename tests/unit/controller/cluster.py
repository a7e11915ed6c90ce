"""A controller without a quorum: commands run on a metadata image, and their records are replayed immediately."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from controller.commands.brokers import unfence_broker
from controller.commands.controller_result import ControllerResult
from controller.commands.partitions import create_partitions
from controller.commands.registration import SUPPORTED_FEATURES, register_broker
from controller.commands.topics import create_topics, delete_topics
from controller.configs import BROKER_CONFIGS, parse_value
from controller.image import Endpoint, MetadataImage, PartitionImage
from controller.image_builder import apply_records
from protocol.messages.broker_registration import BrokerRegistrationRequest, RegisteredListener, SupportedFeature
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.primitives import ZERO_UUID
from protocol.schema import Message


class Settings:
    """The configuration that a broker starts with."""

    def __init__(self, explicit: Mapping[str, str] | None = None, node_id: int = 1) -> None:
        self.node_id = node_id
        self.explicit = dict(explicit or {})

    def __getitem__(self, name: str) -> Any:
        definition = BROKER_CONFIGS[name]
        return parse_value(definition, self.explicit.get(name, definition.default))


def directory(broker_id: int, number: int = 0) -> bytes:
    return bytes([broker_id, number]) * 8


class Cluster:
    """A metadata image and the commands that change it."""

    def __init__(self, settings: Mapping[str, str] | None = None, brokers: int = 1) -> None:
        self.settings = Settings(settings)
        self.random = Random(7)
        self.image = MetadataImage(cluster_id="cluster")
        self.records: tuple[Message, ...] = ()
        for broker_id in range(1, brokers + 1):
            self.add_broker(broker_id)

    def apply(self, decide: Callable[[MetadataImage], ControllerResult[Any]]) -> Any:
        """Run `decide`, replay its records, append them to `records`, and return the response."""
        self.records, response = decide(self.image)
        self.replay(self.records)
        return response

    def replay(self, records: Sequence[Message]) -> None:
        self.image = apply_records(self.image, records, offset=self.image.offset + len(records), epoch=1)

    def add_broker(
        self,
        broker_id: int,
        *,
        rack: str | None = None,
        directories: int = 1,
        fenced: bool = False,
        features: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES,
        clean: bool = False,
    ) -> int:
        """Register a broker, with `clean` after a controlled shutdown; return its epoch."""
        request = new_registration(
            broker_id,
            cluster_id=self.image.cluster_id,
            incarnation_id=self.random.randbytes(16),
            endpoints={"PLAINTEXT": Endpoint(f"host{broker_id}", 9092)},
            directories=[directory(broker_id, number) for number in range(directories)],
            rack=rack,
            features=features,
            previous_broker_epoch=self.image.brokers[broker_id].epoch if clean else -1,
        )
        answer = self.apply(partial(register_broker, request=request, settings=self.settings))
        epoch: int = answer.broker_epoch
        if not fenced:
            self.apply(lambda image: unfence_broker(image, broker_id, epoch, self.settings))
        return epoch

    def create_all(self, *topics: CreateTopicsRequest.Topic, **options: Any) -> list[CreateTopicsResponse.Topic]:
        request = CreateTopicsRequest(topics=list(topics), **options)
        command = partial(create_topics, request=request, settings=self.settings, random=self.random)
        found: list[CreateTopicsResponse.Topic] = self.apply(command).topics
        return found

    def create(self, name: str, *counts: int, **options: Any) -> CreateTopicsResponse.Topic:
        [answer] = self.create_all(new_topic(name, *counts, **options))
        return answer

    def delete(self, *names: str, ids: Iterable[bytes] = ()) -> list[Any]:
        topics = [DeleteTopicsRequest.Topic(name=name, topic_id=ZERO_UUID) for name in names]
        topics += [DeleteTopicsRequest.Topic(name=None, topic_id=topic_id) for topic_id in ids]
        request = DeleteTopicsRequest(topics=topics, timeout_ms=1000)
        found: list[Any] = self.apply(partial(delete_topics, request=request, settings=self.settings)).responses
        return found

    def grow(
        self, name: str, count: int, assignments: list[list[int]] | None = None, *, validate_only: bool = False
    ) -> Any:
        Topic = CreatePartitionsRequest.Topic  # noqa: N806
        given = None if assignments is None else [Topic.Assignment(broker_ids=brokers) for brokers in assignments]
        topic = Topic(name=name, count=count, assignments=given)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=validate_only)
        [answer] = self.apply(partial(create_partitions, request=request, random=self.random)).results
        return answer

    def partition(self, topic: str, index: int = 0) -> PartitionImage:
        found = self.image.partition(topic, index)
        assert found is not None
        return found


def new_registration(
    broker_id: int,
    *,
    cluster_id: str = "cluster",
    incarnation_id: bytes = b"i" * 16,
    endpoints: Mapping[str, Endpoint] | None = None,
    directories: Sequence[bytes] | None = None,
    rack: str | None = None,
    features: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES,
    **fields: Any,
) -> BrokerRegistrationRequest:
    """Return the BrokerRegistration request of a starting broker."""
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation_id,
        listeners=[
            RegisteredListener(name=name, host=point.host, port=point.port, security_protocol=point.security_protocol)
            for name, point in (endpoints or {}).items()
        ],
        features=[
            SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in features.items()
        ],
        rack=rack,
        log_dirs=[directory(broker_id)] if directories is None else list(directories),
        **fields,
    )


def new_topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    assignments: Mapping[int, list[int]] | Iterable[tuple[int, list[int]]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> CreateTopicsRequest.Topic:
    """Return a topic of a CreateTopics request; with `assignments`, both counts are -1."""
    if assignments is not None:
        partitions = replicas = -1
    pairs = assignments.items() if isinstance(assignments, Mapping) else assignments or ()
    return CreateTopicsRequest.Topic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreateTopicsRequest.Topic.Assignment(partition_index=index, broker_ids=brokers) for index, brokers in pairs
        ],
        configs=[CreateTopicsRequest.Topic.Config(name=key, value=value) for key, value in (configs or {}).items()],
    )
