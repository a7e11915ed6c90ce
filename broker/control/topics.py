"""Topics: creation, deletion and description, and the waits for a usable topic and for the end of a log.

These operations are no requests of the Kafka protocol: no rule of `faults` applies to them, so a test sets its stage
undisturbed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from broker.control.api_problem import ApiProblem, conflict
from broker.control.bodies import NumberRange
from broker.control.http_api import ApiResponse
from broker.control.partitions import existing_topic, led_partition, topic_names
from broker.control.waiting import (
    DEFAULT_TIMEOUT_MS,
    TimeoutMs,
    key_events,
    metadata_changes,
    until,
    wait_result,
)
from broker.metadata.topic_creation import create_by_controller
from controller.topic_names import INTERNAL_TOPICS
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.plural import count_of
from protocol.primitives import ZERO_UUID, uuid_text

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.control.control import Control
    from broker.replication.partition import Partition
    from controller.image import PartitionImage, TopicImage


class ConfigBody(NamedTuple):
    """One config of a new topic."""

    name: str
    value: str


class NewTopicBody(NamedTuple):
    """A topic to create; without numbers, the broker's defaults."""

    topic: str
    partitions: Annotated[int, NumberRange(1)] | None = None
    replication_factor: Annotated[int, NumberRange(1)] | None = None
    configs: list[ConfigBody] | None = None
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS


class TopicWait(NamedTuple):
    """A wait for a topic with at least so many partitions, and with the named leaders of some of them."""

    topic: str
    partitions: Annotated[int, NumberRange(1)] = 1
    leaders: dict[str, int] | None = None
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS


class LogEndWait(NamedTuple):
    """A wait for the end of a partition's log, by default of its committed records, to be `offset` or higher."""

    topic: str
    partition: Annotated[int, NumberRange(0)]
    offset: Annotated[int, NumberRange(0)]
    committed: bool = True
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS


async def create_topic(control: Control, body: NewTopicBody) -> ApiResponse:
    """Create a topic; return its description once this broker can serve it."""
    broker = control.broker
    configs = [CreateTopicsRequest.Topic.Config(name=one.name, value=one.value) for one in body.configs or ()]
    topic = CreateTopicsRequest.Topic(
        name=body.topic,
        num_partitions=body.partitions or -1,
        replication_factor=body.replication_factor or -1,
        assignments=[],
        configs=configs,
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=body.timeout_ms)
    [created] = (await create_by_controller(broker, request)).topics
    if created.error_code:
        code = ErrorCode(created.error_code)
        status = HTTPStatus.CONFLICT if code is ErrorCode.TOPIC_ALREADY_EXISTS else HTTPStatus.BAD_REQUEST
        raise ApiProblem(status, f"{code.name}: {created.error_message or code.name}", {"error": code.name})
    waited = await wait_until_usable(control, TopicWait(body.topic, body.partitions or 1, timeout_ms=body.timeout_ms))
    if not waited["met"]:
        raise ApiProblem(HTTPStatus.GATEWAY_TIMEOUT, waited["message"])
    return ApiResponse(waited["seen"], HTTPStatus.CREATED)


async def list_topics(control: Control) -> dict[str, Any]:
    """Return the names of all topics in order of creation, with their numbers of partitions."""
    topics = control.broker.image.topics()
    return {
        "topics": [
            {"topic": one.name, "partitions": len(one.partitions), "internal": one.name in INTERNAL_TOPICS}
            for one in topics
        ]
    }


async def describe_topic(control: Control, topic: str) -> dict[str, Any]:
    """Return a topic's partitions; of those with a replica here, the offsets too."""
    return _described(control.broker, existing_topic(control.broker, topic))


async def delete_topic(control: Control, topic: str) -> dict[str, Any]:
    """Delete a topic; return once it is gone from this broker's metadata."""
    existing_topic(control.broker, topic)
    await delete_topics(control.broker, [topic])
    return {}


async def delete_topics(broker: BrokerServer, names: list[str]) -> None:
    """Delete topics, and wait until they are gone from this broker's metadata. A missing one is no error."""
    wanted = [DeleteTopicsRequest.Topic(name=name, topic_id=ZERO_UUID) for name in names]
    timeout_s = broker.settings["request.timeout.ms"] / 1000
    request = DeleteTopicsRequest(topics=wanted, timeout_ms=int(timeout_s * 1000))
    deleted = await broker.controller_channel.call(request, timeout_s, for_client=True)
    for one in deleted.responses:
        if one.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise conflict(f"topic {one.name}: {ErrorCode(one.error_code).name}: {one.error_message or ''}")
    await until(
        lambda: all(broker.image.topic(name) is None for name in names),
        [metadata_changes(broker.raft)],
        DEFAULT_TIMEOUT_MS,
    )


async def wait_until_usable(control: Control, body: TopicWait) -> dict[str, Any]:
    """Wait until this broker has the topic in its metadata, with leaders, and has its own replicas of it."""
    broker = control.broker
    met = await until(
        lambda: not any(_obstacles(broker, body)),
        [metadata_changes(broker.raft)],
        body.timeout_ms,
    )
    topic = broker.image.topic(body.topic)
    seen = {} if topic is None else _described(broker, topic)
    wanted = f"topic {body.topic} is usable on broker {broker.node_id} with {count_of(body.partitions, 'partition')}"
    if body.leaders:
        wanted += f" and the leaders {', '.join(f'{leader} of {one}' for one, leader in body.leaders.items())}"
    return wait_result(met, wanted, body.timeout_ms, seen, "; ".join(_obstacles(broker, body)))


async def wait_for_log_end(control: Control, body: LogEndWait) -> dict[str, Any]:
    """Wait until a partition led here has records up to an offset."""
    broker = control.broker
    partition = led_partition(broker, body.topic, body.partition)

    def end() -> int:
        return partition.high_watermark if body.committed else partition.log.log_end_offset

    def is_reached() -> bool:
        led_partition(broker, body.topic, body.partition)
        return end() >= body.offset

    met = await until(is_reached, [key_events(broker.purgatory, (partition, partition.log))], body.timeout_ms)
    which = "committed end" if body.committed else "log end"
    seen = offsets_of(partition)
    text = f"its {which} is {end()}, its log start {partition.log.log_start_offset}"
    return wait_result(met, f"{which} of {partition} is at least {body.offset}", body.timeout_ms, seen, text)


def offsets_of(partition: Partition) -> dict[str, int]:
    """Return the offsets of a replica."""
    log = partition.log
    return {
        "log_start": log.log_start_offset,
        "log_end": log.log_end_offset,
        "high_watermark": log.high_watermark,
        "last_stable_offset": log.last_stable_offset,
    }


def _obstacles(broker: BrokerServer, wait: TopicWait) -> Iterator[str]:
    """Yield the reasons why this broker cannot serve the topic yet."""
    name, leaders = wait.topic, wait.leaders or {}
    topic = broker.image.topic(name)
    if topic is None:
        yield f"broker {broker.node_id} knows no topic {name}, only: {topic_names(broker)}"
        return
    if len(topic.partitions) < wait.partitions:
        yield f"it has {count_of(len(topic.partitions), 'partition')}"
    for state in topic.partitions.values():
        leader = broker.image.brokers.get(state.leader)
        if leader is None or not leader.active:
            yield f"{name}-{state.partition} has no leader that is active"
        elif leaders.get(str(state.partition), state.leader) != state.leader:
            yield f"{name}-{state.partition} is led by broker {state.leader}"
        elif broker.node_id in state.replicas:
            replica = broker.replicas.find_named(name, state.partition)
            if replica is None or replica.topic_id != topic.topic_id or replica.leader != state.leader:
                yield f"broker {broker.node_id} has not created its replica of {name}-{state.partition}"


def _described(broker: BrokerServer, topic: TopicImage) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "partitions": [_described_partition(broker, topic.name, state) for state in topic.partitions.values()],
    }


def _described_partition(broker: BrokerServer, topic: str, state: PartitionImage) -> Mapping[str, object]:
    described: dict[str, object] = {
        "partition": state.partition,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "replicas": list(state.replicas),
        "isr": list(state.isr),
    }
    replica = broker.replicas.find_named(topic, state.partition)
    if replica is not None:
        described["offsets"] = offsets_of(replica)
    return described
