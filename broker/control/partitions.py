"""Topics and the partitions led here, by name; `ApiProblem` says what is missing, or where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.control.api_problem import misdirected, not_found

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.replication.partition import Partition
    from controller.image import TopicImage


def existing_topic(broker: BrokerServer, topic: str) -> TopicImage:
    """Return a topic; `ApiProblem` with the existing ones if there is none of the name."""
    found = broker.image.topic(topic)
    if found is None:
        raise not_found(f"there is no topic {topic}; there are: {topic_names(broker)}")
    return found


def topic_names(broker: BrokerServer) -> str:
    """Return the names of all topics, for a message."""
    return ", ".join(sorted(topic.name for topic in broker.image.topics())) or "none"


def local_leaders(broker: BrokerServer, topic: str) -> dict[int, Partition]:
    """Return the partitions of a topic that this broker leads, by index; `ApiProblem` if there is no such topic."""
    found = {
        index: broker.replicas.find_named(topic, index) for index in sorted(existing_topic(broker, topic).partitions)
    }
    return {index: partition for index, partition in found.items() if partition is not None and partition.is_leader}


def led_partition(broker: BrokerServer, topic: str, index: int) -> Partition:
    """Return a partition led here; `ApiProblem` if it does not exist or another broker leads it."""
    state = existing_topic(broker, topic).partitions.get(index)
    if state is None:
        raise not_found(f"topic {topic} has no partition {index}")
    found = broker.replicas.find_named(topic, index)
    if found is None or not found.is_leader:
        raise misdirected(f"the leader of {topic}-{index}", -1 if state.leader == broker.node_id else state.leader)
    return found
