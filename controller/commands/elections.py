"""Leaders elected at somebody's request (KIP-183, KIP-460).

    preferred   the first replica leads, if it is in sync and its broker active
    unclean     whoever lives leads what nobody leads: one in sync if there is one, else any, and what only the others
                had is lost

A replica outside the ISR is as good as one within while the ISR is empty and the replica is known to have every
committed record (KIP-966). The leader of an unclean election is the whole ISR, and is marked as recovering.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from controller.commands.decision import Decision
from controller.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from protocol.records.metadata import PartitionChangeRecord

_RECOVERING = 1

_Result = ElectLeadersResponse.Topic.Partition


class ElectionType(IntEnum):
    """How to elect; the numbers are those of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


_UNAVAILABLE = {
    ElectionType.PREFERRED: (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        "The preferred leader is not in sync and active.",
    ),
    ElectionType.UNCLEAN: (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "None of the replicas is on an active broker."),
}


def elect_leaders(image: MetadataImage, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Elect leaders of the partitions asked for; of all, naming only those that needed it, if none are named.

    KafkaError INVALID_REQUEST for an unknown type of election.
    """
    if request.election_type not in set(ElectionType):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    election = ElectionType(request.election_type)
    changes: dict[tuple[str, int], PartitionChangeRecord] = {}
    results = []
    for topic, partitions in _asked(image, request):
        answers = [_elect(image, topic, index, election, changes) for index in partitions]
        if request.topic_partitions is None:
            answers = [answer for answer in answers if answer.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ElectLeadersResponse.Topic(topic=topic, partition_result=answers))
    return Decision(tuple(changes.values()), ElectLeadersResponse(replica_election_results=results))


def _asked(image: MetadataImage, request: ElectLeadersRequest) -> Iterator[tuple[str, list[int]]]:
    if request.topic_partitions is None:
        for topic in image.topics():
            yield topic.name, list(topic.partitions)
    else:
        for asked in request.topic_partitions:
            yield asked.topic, asked.partitions


def _elect(
    image: MetadataImage,
    name: str,
    index: int,
    election: ElectionType,
    changes: dict[tuple[str, int], PartitionChangeRecord],
) -> _Result:
    try:
        topic = image.topic(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        partition = topic.partitions.get(index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
        # A partition that is named twice is elected once, with the same answer.
        changes[name, index] = _change(image, topic, partition, election)
    except KafkaError as error:
        return _Result(partition_id=index, error_code=error.code, error_message=error.message)
    return _Result(partition_id=index, error_message=None)


def _change(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, election: ElectionType
) -> PartitionChangeRecord:
    """Return the record that elects; KafkaError if there is nothing to do, or nobody to elect."""
    preferred = partition.replicas[0]
    led = partition.leader == preferred if election is ElectionType.PREFERRED else partition.leader != NO_LEADER
    if led:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    living = [replica for replica in partition.replicas if image.is_active(replica)]
    in_sync = [replica for replica in living if replica in (partition.isr or partition.eligible_leader_replicas)]
    change = PartitionChangeRecord(partition_id=partition.partition, topic_id=topic.topic_id)
    if election is ElectionType.PREFERRED and partition.leader in in_sync and preferred not in in_sync:
        raise KafkaError(*_UNAVAILABLE[election])
    if in_sync:
        change.leader = in_sync[0]
    elif election is ElectionType.UNCLEAN and living:
        change.leader = living[0]
        change.leader_recovery_state = _RECOVERING
    else:
        raise KafkaError(*_UNAVAILABLE[election])
    if change.leader not in partition.isr:
        change.isr = [change.leader]
        remaining = [replica for replica in partition.eligible_leader_replicas if replica != change.leader]
        if remaining != list(partition.eligible_leader_replicas):
            change.eligible_leader_replicas, change.last_known_elr = remaining, []
    return change
