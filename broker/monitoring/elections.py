"""Counts of unclean elections and of elections from the eligible leader replicas (Kafka: `ControllerMetricsChanges`).

An election is clean if the new leader was in the ISR or among the eligible leader replicas (KIP-966) before.
A controller counts the changes that it applies after its start, whichever controller decided them.
"""

from collections.abc import Iterable

from controller.image import MetadataImage
from protocol.records.metadata import PartitionChangeRecord


class ElectionCounts:
    """Elections since the start, by kind."""

    def __init__(self) -> None:
        self.unclean = 0
        self.from_eligible = 0

    def apply(self, old: MetadataImage, _new: MetadataImage, records: Iterable[object]) -> None:
        """Count the elections among `records`, which change the image `old`."""
        for record in records:
            if not isinstance(record, PartitionChangeRecord) or record.leader < 0:
                continue
            topic = old.topic_by_id(record.topic_id)
            before = None if topic is None else topic.partitions.get(record.partition_id)
            if before is None or record.leader in before.isr:
                continue
            if record.leader in before.eligible_leader_replicas:
                self.from_eligible += 1
            else:
                self.unclean += 1
