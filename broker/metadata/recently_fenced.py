"""The leaders that were lost a moment ago: clients are still told that there are such brokers.

A broker that crashes is known to be gone in a moment, and others lead its partitions at once. Its address stays in the
answers to Metadata for `TOLD_FOR_S`; with Apache Kafka clients are told of it for the whole of its session, 9 seconds.
librdkafka needs that: it moves a partition to a new leader at once if it is still told of the old one, but forgets a
broker that it is told of no more together with the partitions that it sent there, and asks for their leaders again only
after a second. No longer than that takes, for others may choose it for what any broker can answer.

Nobody is told of a broker that led nothing when it was fenced, as one that stopped in good order, or that is
unregistered. What leads or can be reached is not asked here: `topic_view` knows. Pure: seconds of a clock that never
goes back are handed in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from controller.elections import leads_any

if TYPE_CHECKING:
    from controller.image import MetadataImage
    from protocol.schema import Message


# librdkafka looks for lost leaders at once, and then every second.
TOLD_FOR_S = 3.0


class LatelyLost:
    """Brokers that led something when they were fenced."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._until_s: dict[int, float] = {}

    def apply(self, before: MetadataImage, image: MetadataImage, _records: tuple[Message, ...]) -> None:
        """Follow a change of the metadata."""
        if image.brokers is before.brokers:
            return
        for broker_id, broker in before.brokers.items():
            now = image.brokers.get(broker_id)
            if now is not None and now.fenced and not broker.fenced and leads_any(before, broker_id):
                self._until_s[broker_id] = self._now_s() + TOLD_FOR_S

    def ids(self, image: MetadataImage) -> frozenset[int]:
        """Return those of the image's brokers who are fenced since a moment ago only."""
        if not self._until_s:
            return frozenset()
        now_s = self._now_s()
        known = image.brokers
        self._until_s = {
            broker_id: until_s
            for broker_id, until_s in self._until_s.items()
            if now_s < until_s and broker_id in known and known[broker_id].fenced
        }
        return frozenset(self._until_s)
