"""Elections that are due although nobody asks for them.

    balancing   leadership goes back to the preferred replicas, every `leader.imbalance.check.interval.seconds`
    unclean     topics that allow it get leaders that may have lost records, every `unclean.leader.election.interval.ms`
                and as soon as they allow it

Each time, at most so many that others are served in between. The response says whether more may be due: then the caller
asks again at once instead of after the interval.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from controller.commands.controller_result import Decision
from controller.configs.effective import StaticSettings
from controller.elections import partitions
from controller.image import NO_LEADER, MetadataImage
from controller.partition_change import DEFAULT_SETTINGS, Election, Elector
from protocol.records.metadata import PartitionChangeRecord

MAX_ELECTIONS = 1_000


def balance_leaders(
    image: MetadataImage, settings: StaticSettings = DEFAULT_SETTINGS, limit: int = MAX_ELECTIONS
) -> Decision[bool]:
    """Elect preferred replicas that do not lead but could, `limit` at most.

    The response is whether more may be due. The caller asks only where auto.leader.rebalance.enable is set.
    """
    elector = Elector(image, settings)
    return _first(
        (
            elector.change(topic, partition, election=Election.PREFERRED)
            for topic, partition in partitions(image)
            if partition.leader != partition.replicas[0]
        ),
        limit,
    )


def elect_unclean_leaders(
    image: MetadataImage, settings: StaticSettings = DEFAULT_SETTINGS, limit: int = MAX_ELECTIONS
) -> Decision[bool]:
    """Elect leaders where there are none and topics have unclean.leader.election.enable, `limit` at most.

    The response is whether more may be due.
    """
    elector = Elector(image, settings)
    return _first(
        (
            elector.change(topic, partition, election=Election.UNCLEAN)
            for topic, partition in partitions(image)
            if partition.leader == NO_LEADER and elector.unclean_enabled(topic)
        ),
        limit,
    )


def _first(changes: Iterable[PartitionChangeRecord | None], limit: int) -> Decision[bool]:
    records = tuple(islice(filter(None, changes), limit))
    return Decision(records, len(records) >= limit)
