"""Topic creation: check disk space, submit the command, wait until every broker can serve the topic.

A full disk rejects creation with KAFKA_STORAGE_ERROR before the controller sees it: a topic whose logs cannot be made
would exist without a replica that can serve it. Unlike in Kafka, the response waits until all active brokers have
applied the new topics. `controller.commands.topics` decides.
"""

import logging
from functools import partial

from broker.controller_server import ControllerServer
from broker.shared_server import RoleServer
from controller.commands.topics import RecordMutations, create_topics, unlimited
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.plural import count_of

_log = logging.getLogger("broker")

_WAIT_SHARE = 0.75
"""Share of the request's timeout that is spent on waiting."""


async def submit_topics(
    controller: ControllerServer,
    request: CreateTopicsRequest,
    timeout_ms: int | None = None,
    record_mutations: RecordMutations = unlimited,
) -> CreateTopicsResponse:
    """Create the topics of `request`. Errors of single topics are in the response; others as in `RaftDriver.submit`."""
    try:
        controller.logs.check_room()
    except KafkaError as full:
        names = dict.fromkeys(topic.name for topic in request.topics)
        return CreateTopicsResponse(
            topics=[
                CreateTopicsResponse.Topic(name=name, error_code=full.code, error_message=full.message)
                for name in names
            ]
        )
    command = partial(
        create_topics,
        request=request,
        settings=controller.settings,
        random=controller.random,
        record_mutations=record_mutations,
    )
    started_s = controller.loop.time()
    response = await controller.raft.submit(command, wait_budget_ms(controller, timeout_ms))
    if not request.validate_only and any(not topic.error_code for topic in response.topics):
        await until_served(controller, started_s, timeout_ms)
    return response


def wait_budget_ms(controller: ControllerServer, timeout_ms: int | None) -> int:
    """Return the wait budget in ms: 75 % of min(`timeout_ms`, `request.timeout.ms`)."""
    limit_ms: int = controller.settings["request.timeout.ms"]
    return int(_WAIT_SHARE * min(limit_ms, limit_ms if timeout_ms is None else timeout_ms))


async def until_served(controller: ControllerServer, started_s: float, timeout_ms: int | None) -> None:
    """Wait until all active brokers have applied the metadata applied here; `wait_budget_ms` after `started_s` at most.

    Brokers report that at once (`broker.metadata.eager_heartbeats`); one that hangs or is unreachable no longer counts
    once it is fenced. The budget ends before the client's timeout: the topics exist by then, and a later response would
    not be read.
    """
    deadline_s = started_s + wait_budget_ms(controller, timeout_ms) / 1000
    await controller.tasks.until_all_applied(controller.image.offset, deadline_s - controller.loop.time())


async def create_by_controller(server: RoleServer, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create topics through the active controller; KafkaError if it does not respond."""
    timeout_s = server.settings["request.timeout.ms"] / 1000
    created: CreateTopicsResponse = await server.controller_channel.call(request, timeout_s, for_client=True)
    return created


async def create_if_missing(server: RoleServer, name: str, partitions: int | None) -> None:
    """Create a topic with `partitions`, or the default number, unless it exists; KafkaError if it cannot be created.

    An existing topic with another number of partitions is left as it is; a warning has both numbers.
    """
    topic = CreateTopicsRequest.Topic(
        name=name, num_partitions=partitions or -1, replication_factor=-1, assignments=[], configs=[]
    )
    [response] = (await create_by_controller(server, CreateTopicsRequest(topics=[topic]))).topics
    if response.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise KafkaError(ErrorCode(response.error_code), response.error_message or "")
    existing = server.image.topic(name) if response.error_code else None
    if existing is not None and partitions is not None and partitions != len(existing.partitions):
        _log.warning(
            "--topic %s:%d: the topic exists with %s; %s",
            name,
            partitions,
            count_of(len(existing.partitions), "partition"),
            f"`barnabas topic alter {name} --partitions {partitions}` adds the others"
            if len(existing.partitions) < partitions
            else "partitions cannot be removed",
        )
