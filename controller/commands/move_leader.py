"""The leader of a partition, moved to another replica in sync, as a test of failovers wants it; Kafka has no such API.

Every replica in the ISR has every committed record, so each may lead. The ISR and the other replicas stay as they are.
"""

from controller.commands.controller_result import ControllerResult
from controller.image import MetadataImage
from protocol.errors import ErrorCode, KafkaError
from protocol.records.metadata import PartitionChangeRecord


def move_leader(image: MetadataImage, topic_name: str, index: int, leader: int) -> ControllerResult[None]:
    """Let `leader` lead a partition, in a new leader epoch; nothing changes if it does already.

    KafkaError: UNKNOWN_TOPIC_OR_PARTITION, ELIGIBLE_LEADERS_NOT_AVAILABLE if `leader` is not in sync and active.
    """
    topic = image.topic(topic_name)
    state = None if topic is None else topic.partitions.get(index)
    if topic is None or state is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic_name}-{index}")
    broker = image.brokers.get(leader)
    if leader not in state.isr or broker is None or not broker.active:
        raise KafkaError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"broker {leader} is not in sync and active: the ISR of {topic_name}-{index} is {list(state.isr)}",
        )
    if state.leader == leader:
        return ControllerResult((), None)
    change = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=leader)
    return ControllerResult((change,), None)
