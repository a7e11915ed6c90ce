"""Leader elections on request (KIP-183, KIP-460).

    preferred   the first replica becomes leader, if it has every committed record and is live
    unclean     a partition without a leader gets one: a live replica with every committed record if there is one, else
                any live replica, which loses the records that only the others have

The effects of an election are in `controller.partition_change`.
"""

from collections.abc import Iterator
from enum import IntEnum

from controller.batches import MAX_RECORDS_PER_BATCH
from controller.commands.controller_result import ControllerResult
from controller.configs.effective import StaticSettings
from controller.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from controller.partition_change import DEFAULT_SETTINGS, Election, PartitionChangeBuilder
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from protocol.records.metadata import PartitionChangeRecord

_Result = ElectLeadersResponse.Topic.Partition


class ElectionType(IntEnum):
    """The type of an election, with the numbers of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


_ELECTIONS = {ElectionType.PREFERRED: Election.PREFERRED, ElectionType.UNCLEAN: Election.FORCED}

_UNAVAILABLE = {
    ElectionType.PREFERRED: (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        "The preferred leader is not in sync and active.",
    ),
    ElectionType.UNCLEAN: (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "None of the replicas is on an active broker."),
}


def elect_leaders(
    image: MetadataImage, request: ElectLeadersRequest, settings: StaticSettings = DEFAULT_SETTINGS
) -> ControllerResult[ElectLeadersResponse]:
    """Elect leaders of the requested partitions; with none named, of all, returning only those that needed an election.

    KafkaError INVALID_REQUEST for an unknown election type, POLICY_VIOLATION if too many partitions need an election.
    """
    if request.election_type not in set(ElectionType):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    election = ElectionType(request.election_type)
    builder = PartitionChangeBuilder(image, settings)
    changes: dict[tuple[str, int], PartitionChangeRecord] = {}
    topics = []
    for topic, partitions in _requested(image, request):
        results = [_elect(builder, topic, index, election, changes) for index in partitions]
        if request.topic_partitions is None:
            results = [result for result in results if result.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        topics.append(ElectLeadersResponse.Topic(topic=topic, partition_result=results))
    if len(changes) > MAX_RECORDS_PER_BATCH:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    return ControllerResult(tuple(changes.values()), ElectLeadersResponse(replica_election_results=topics))


def _requested(image: MetadataImage, request: ElectLeadersRequest) -> Iterator[tuple[str, list[int]]]:
    if request.topic_partitions is None:
        for topic in image.topics():
            yield topic.name, list(topic.partitions)
    else:
        for requested in request.topic_partitions:
            yield requested.topic, requested.partitions


def _elect(
    builder: PartitionChangeBuilder,
    name: str,
    index: int,
    election: ElectionType,
    changes: dict[tuple[str, int], PartitionChangeRecord],
) -> _Result:
    try:
        topic = builder.image.topic(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        partition = topic.partitions.get(index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
        # A partition that is named twice gets one election, and the same result twice.
        changes[name, index] = _change(builder, topic, partition, election)
    except KafkaError as error:
        return _Result(partition_id=index, error_code=error.code, error_message=error.message)
    return _Result(partition_id=index, error_message=None)


def _change(
    builder: PartitionChangeBuilder, topic: TopicImage, partition: PartitionImage, election: ElectionType
) -> PartitionChangeRecord:
    """Return the record of an election; KafkaError if none is needed or no replica can lead."""
    preferred = partition.replicas[0]
    not_needed = partition.leader == preferred if election is ElectionType.PREFERRED else partition.leader != NO_LEADER
    if not_needed:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    change = builder.change(topic, partition, election=_ELECTIONS[election])
    if change is None:
        raise KafkaError(*_UNAVAILABLE[election])
    return change
