"""CreateTopics and CreatePartitions: create topics, and add partitions to existing ones (KIP-4, KIP-195).

Behaviour
- The controller decides each topic independently (`controller.commands.topics`, `controller.commands.partitions`).
- Beyond Kafka, the response is sent when every new partition accepts records: leaders are elected and every active
  broker has created its replicas. It waits at most 75 % of min(request timeout, `request.timeout.ms`).
- KAFKA_STORAGE_ERROR, and nothing is created, if the disk has no space for logs.
- New partitions count against the client's quota of controller mutations (`controller_mutation_rate`, KIP-599). Above
  it, newer versions get THROTTLING_QUOTA_EXCEEDED for the topic, older ones a throttle time.
- REQUEST_TIMED_OUT if the records are not committed by then; topics and partitions may exist later.

Version notes
- CreateTopics 4 and later take -1 for the default number of partitions and replicas (KIP-464), 5 and later return the
  topic's settings (KIP-525), 7 and later its id.
- CreateTopics 6 and CreatePartitions 3 return THROTTLING_QUOTA_EXCEEDED.
"""

from functools import partial

from broker.controller_server import ControllerServer
from broker.metadata.topic_creation import submit_topics, until_served, wait_budget_ms
from broker.network.connection import RequestContext
from controller.commands.partitions import create_partitions as add_partitions
from protocol.errors import KafkaError
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse


async def create_topics(
    controller: ControllerServer, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Submit the command; return its response once the brokers serve the topics."""
    quota = controller.mutation_quota(context)
    response = await submit_topics(controller, request, request.timeout_ms, quota.record)
    response.throttle_time_ms = quota.throttle_ms
    return response


async def create_partitions(
    controller: ControllerServer, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Submit the command; return its response once the brokers serve the partitions."""
    try:
        controller.logs.check_room()
    except KafkaError as full:
        names = dict.fromkeys(topic.name for topic in request.topics)
        results = [
            CreatePartitionsResponse.Result(name=name, error_code=full.code, error_message=full.message)
            for name in names
        ]
        return CreatePartitionsResponse(results=results)
    quota = controller.mutation_quota(context)
    command = partial(add_partitions, request=request, random=controller.random, record_mutations=quota.record)
    begun_s = controller.loop.time()
    response = await controller.raft.submit(command, wait_budget_ms(controller, request.timeout_ms))
    if not request.validate_only and any(not result.error_code for result in response.results):
        await until_served(controller, begun_s, request.timeout_ms)
    response.throttle_time_ms = quota.throttle_ms
    return response
