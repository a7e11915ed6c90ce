"""Metadata: the brokers, and the leaders and replicas of topics' partitions.

Behaviour
- All topics, the named ones, or none. Topics are requested by name or by id, and returned in the request's order.
- A named topic that does not exist is created if both the request and `auto.create.topics.enable` allow it. Beyond
  Kafka, which returns LEADER_NOT_AVAILABLE and creates in the background, the response waits for it.
- A response with a suspected leader, whose connection to this broker just broke, waits until the suspicion is resolved
  (`broker.metadata.suspected_leaders`): beyond Kafka, so that clients find the next leader with one request.
- The controller is any live broker: it forwards the controller's requests.
- Brokers and leaders are those reachable on the request's listener; other leaders are -1. A leader that was just fenced
  stays among the brokers for 3 s (`broker.metadata.recently_fenced`), and leads nothing.
- The same image gives the same response. Each topic is encoded once until the topic or a broker changes: a client of
  10,000 partitions sends Metadata often, and one record changes few of them.

Version notes
- 0: an empty list requests all topics, and unreachable replicas are omitted, with REPLICA_NOT_AVAILABLE.
- 1 and later: null requests all topics, an empty list none. 4 and later can forbid creation.
- 6 and later: LISTENER_NOT_FOUND if a live leader has no address on this listener; below, LEADER_NOT_AVAILABLE.
- 8 to 10 return the authorized operations of the cluster, 8 and later those of topics, if requested (KIP-430):
  also those of a named topic that does not exist.
- 10 and later return topic ids, 12 and later accept them in requests (KIP-516).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Set

from broker.broker_server import BrokerServer
from broker.handlers.authorized_operations import CLUSTER_OPERATIONS, OPERATIONS_NOT_REQUESTED, TOPIC_OPERATIONS
from broker.metadata.internal_topics import create_on_demand, is_creatable
from broker.metadata.metadata_view import PartitionView, controller_for_clients, reachable_brokers, view_partition
from broker.network.connection import RequestContext
from controller.image import MetadataImage, PartitionImage, TopicImage
from controller.topic_names import INTERNAL_TOPICS, check_topic_name
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.primitives import ZERO_UUID

_MAX_VIEWS = 10_000

_Topic = MetadataResponse.Topic
_Partition = MetadataResponse.Topic.Partition


def handle(
    broker: BrokerServer, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Return the response from the image; wait only to create topics or while a leader is suspected."""
    _check_versions(request, context.api_version)
    missing = _to_create(broker, request)
    if missing:
        return _create_and_answer(broker, context, request, missing)
    suspects = broker.node_clients.suspects.ids
    if suspects and (lost := suspects & _leaders(broker.image, request, context.api_version)):
        return _answer_once_settled(broker, context, request, lost)
    return _answer(broker, context, request, {})


def _check_versions(request: MetadataRequest, version: int) -> None:
    for topic in request.topics or ():
        if topic.name is None and version < 12:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {version}")
        if topic.topic_id != ZERO_UUID and version < 12:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Topic IDs are not supported for version {version}")


def _requests_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _to_create(broker: BrokerServer, request: MetadataRequest) -> list[str]:
    """Return the topics that are requested by name, do not exist, and may be created."""
    if not (request.allow_auto_topic_creation and request.topics and broker.settings["auto.create.topics.enable"]):
        return []
    image = broker.image
    names = dict.fromkeys(topic.name for topic in request.topics if topic.topic_id == ZERO_UUID)
    return [name for name in names if name is not None and image.topic(name) is None and is_creatable(name)]


def _leaders(image: MetadataImage, request: MetadataRequest, version: int) -> set[int]:
    """Return the leaders of the requested topics' partitions."""
    if _requests_all(request, version):
        topics: Iterable[TopicImage | None] = image.topics()
    else:
        topics = [
            image.topic(wanted.name or "") if wanted.topic_id == ZERO_UUID else image.topic_by_id(wanted.topic_id)
            for wanted in request.topics or ()
        ]
    return {state.leader for topic in topics if topic is not None for state in topic.partitions.values()}


async def _answer_once_settled(
    broker: BrokerServer, context: RequestContext, request: MetadataRequest, suspects: Set[int]
) -> MetadataResponse:
    await broker.node_clients.suspects.until_resolved(suspects)
    return _answer(broker, context, request, {})


async def _create_and_answer(
    broker: BrokerServer, context: RequestContext, request: MetadataRequest, missing: list[str]
) -> MetadataResponse:
    created = await create_on_demand(broker, missing, context)
    errors = {topic.name: ErrorCode(topic.error_code) for topic in created.topics if topic.error_code}
    for name, error in errors.items():
        if error is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            # Clients do not expect it here; they try again with this one.
            errors[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _answer(broker, context, request, errors)


def _answer(
    broker: BrokerServer, context: RequestContext, request: MetadataRequest, errors: dict[str, ErrorCode]
) -> MetadataResponse:
    """Return the response from the current image; `errors` are those of topics that could not be created."""
    image, version = broker.image, context.api_version
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else OPERATIONS_NOT_REQUESTED
    view = _View.of(image, context.listener, version, operations, broker.recently_fenced.ids(image))
    if _requests_all(request, version):
        topics = view.topics(image.topics())
    else:
        topics = [view.requested_topic(topic, errors) for topic in request.topics or ()]
    return MetadataResponse(
        brokers=view.brokers,
        cluster_id=image.cluster_id,
        controller_id=controller_for_clients(view.reachable, broker.random),
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else OPERATIONS_NOT_REQUESTED,
    )


class _View:
    """The response parts for one listener and kind of version; reused from image to image until the brokers change."""

    def __init__(
        self, image: MetadataImage, listener: str, version: int, operations: int, recently_fenced: frozenset[int]
    ) -> None:
        self._image = image
        self._brokers = image.brokers
        self._recently_fenced = recently_fenced
        self._version = version
        self._operations = operations
        self.reachable = reachable_brokers(image, listener)
        self._known: dict[bytes, tuple[TopicImage, _Topic]] = {}
        self._views: dict[tuple[int, tuple[int, ...], tuple[int, ...]], PartitionView] = {}
        self.brokers = [
            MetadataResponse.Broker(
                node_id=node.broker_id,
                host=node.endpoints[listener].host,
                port=node.endpoints[listener].port,
                rack=node.rack,
            )
            for node in sorted(image.brokers.values())
            if node.broker_id in self.reachable or (node.broker_id in recently_fenced and listener in node.endpoints)
        ]

    @staticmethod
    def of(
        image: MetadataImage, listener: str, version: int, operations: int, recently_fenced: frozenset[int]
    ) -> _View:
        """Return the view of an image: that of an earlier image if the brokers are the same."""
        # Version 0 omits replicas, 1 to 5 have fewer errors; the other versions differ in encoding only.
        kind = min(version, 1) if version < 6 else 6
        key = ("metadata", listener, kind, operations)
        view: _View | None = image.lasting_memo.get(key)
        if view is None or view._brokers is not image.brokers or view._recently_fenced != recently_fenced:
            view = image.lasting_memo[key] = _View(image, listener, kind, operations, recently_fenced)
        view._image = image
        return view

    def topics(self, topics: Iterable[TopicImage]) -> list[_Topic]:
        """Return all of `topics`."""
        return [self._topic(topic) for topic in topics]

    def requested_topic(self, wanted: MetadataRequest.Topic, errors: dict[str, ErrorCode]) -> _Topic:
        """Return a requested topic, or the error for it."""
        if wanted.topic_id != ZERO_UUID:
            topic = self._image.topic_by_id(wanted.topic_id)
            if topic is None:
                return self._unknown(ErrorCode.UNKNOWN_TOPIC_ID, None, wanted.topic_id)
            return self._topic(topic)
        name = wanted.name or ""
        topic = self._image.topic(name)
        if topic is not None:
            return self._topic(topic)
        try:
            check_topic_name(name)
        except KafkaError as error:
            return self._unknown(error.code, name)
        return self._unknown(errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), name)

    def _unknown(self, error: ErrorCode, name: str | None, topic_id: bytes = ZERO_UUID) -> _Topic:
        return _Topic(
            error_code=error,
            name=name,
            topic_id=topic_id,
            is_internal=name in INTERNAL_TOPICS,
            partitions=[],
            topic_authorized_operations=OPERATIONS_NOT_REQUESTED if name is None else self._operations,
        )

    def _topic(self, topic: TopicImage) -> _Topic:
        known = self._known.get(topic.topic_id)
        if known is None or known[0] is not topic:
            self._forget_deleted()
            described_topic = _Topic(
                name=topic.name,
                topic_id=topic.topic_id,
                is_internal=topic.name in INTERNAL_TOPICS,
                partitions=[self._partition(partition) for partition in topic.partitions.values()],
                topic_authorized_operations=self._operations,
            )
            known = self._known[topic.topic_id] = topic, described_topic
        return known[1]

    def _forget_deleted(self) -> None:
        """Drop deleted topics when the cache has more than twice as many topics as the image."""
        existing = self._image.topics_by_id()
        if len(self._known) > 2 * len(existing):
            self._known = {topic_id: known for topic_id, known in self._known.items() if topic_id in existing}

    def _partition(self, partition: PartitionImage) -> _Partition:
        # Of 10,000 partitions, most share their leader and replicas with many others.
        key = (partition.leader, partition.replicas, partition.isr)
        view = self._views.get(key)
        if view is None:
            if len(self._views) == _MAX_VIEWS:
                self._views.clear()
            view = self._views[key] = self._view_partition(partition)
        return _Partition(
            error_code=view.error,
            partition_index=partition.partition,
            leader_id=view.leader_id,
            leader_epoch=partition.leader_epoch,
            replica_nodes=view.replicas,
            isr_nodes=view.isr,
            offline_replicas=view.offline,
        )

    def _view_partition(self, partition: PartitionImage) -> PartitionView:
        view = view_partition(self._image, partition, self.reachable)
        if view.error is ErrorCode.LISTENER_NOT_FOUND and self._version < 6:
            view = view._replace(error=ErrorCode.LEADER_NOT_AVAILABLE)
        if self._version == 0:
            replicas = [replica for replica in view.replicas if replica in self.reachable]
            isr = [replica for replica in view.isr if replica in self.reachable]
            error = view.error
            if error is ErrorCode.NONE and len(replicas) + len(isr) < len(view.replicas) + len(view.isr):
                error = ErrorCode.REPLICA_NOT_AVAILABLE
            view = view._replace(error=error, replicas=replicas, isr=isr)
        return view
