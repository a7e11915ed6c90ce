"""Leader elections at intervals.

    balancing   preferred replicas become leaders again, every `leader.imbalance.check.interval.seconds`
    unclean     topics that allow it get leaders that may lack records, every `unclean.leader.election.interval.ms`
                and as soon as they allow it

Each run makes a limited number of elections, so that other requests are served in between. The response is whether more
may be due; the caller then repeats the run at once instead of after the interval.
"""

from collections.abc import Iterable
from itertools import islice

from controller.commands.controller_result import ControllerResult
from controller.configs.effective import StaticSettings
from controller.image import NO_LEADER, MetadataImage
from controller.leader_and_isr_updates import partitions
from controller.partition_change import DEFAULT_SETTINGS, Election, PartitionChangeBuilder
from protocol.records.metadata import PartitionChangeRecord

MAX_ELECTIONS = 1_000


def balance_leaders(
    image: MetadataImage, settings: StaticSettings = DEFAULT_SETTINGS, limit: int = MAX_ELECTIONS
) -> ControllerResult[bool]:
    """Elect preferred replicas that can lead but do not, at most `limit`.

    The response is whether more may be due. The caller checks auto.leader.rebalance.enable.
    """
    builder = PartitionChangeBuilder(image, settings)
    return _first(
        (
            builder.change(topic, partition, election=Election.PREFERRED)
            for topic, partition in partitions(image)
            if partition.leader != partition.replicas[0]
        ),
        limit,
    )


def elect_unclean_leaders(
    image: MetadataImage, settings: StaticSettings = DEFAULT_SETTINGS, limit: int = MAX_ELECTIONS
) -> ControllerResult[bool]:
    """Elect leaders for partitions without one whose topics enable unclean elections, at most `limit`.

    The response is whether more may be due.
    """
    builder = PartitionChangeBuilder(image, settings)
    return _first(
        (
            builder.change(topic, partition, election=Election.UNCLEAN)
            for topic, partition in partitions(image)
            if partition.leader == NO_LEADER and builder.unclean_enabled(topic)
        ),
        limit,
    )


def _first(changes: Iterable[PartitionChangeRecord | None], limit: int) -> ControllerResult[bool]:
    records = tuple(islice(filter(None, changes), limit))
    return ControllerResult(records, len(records) >= limit)
