"""Recently fenced leaders: they stay in Metadata's broker list for `RECENTLY_FENCED_S` after they are fenced.

A crashed broker is fenced within `barnabas.broker.disconnect.grace.ms`, and others lead its partitions at once. With
Apache Kafka, a crashed broker stays listed until its session ends, 9 s by default. librdkafka depends on that: it moves
a partition to the new leader at once while the old leader is still listed, but drops a broker that is no longer listed
together with its partitions, and requests their leaders again only after 1 s. The time is short because clients may
choose a listed broker for requests that any broker can answer.

A broker that led nothing when it was fenced, as after a controlled shutdown, or that was unregistered, is not listed.
For leaders and reachable brokers see `metadata_view`.
"""

from collections.abc import Callable

from controller.image import MetadataImage
from controller.leader_and_isr_updates import leads_any
from protocol.schema import Message

# librdkafka requests the leaders of lost partitions at once, and then every second.
RECENTLY_FENCED_S = 3.0


class RecentlyFenced:
    """The brokers that led a partition when they were fenced."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._until_s: dict[int, float] = {}

    def apply(self, before: MetadataImage, image: MetadataImage, _records: tuple[Message, ...]) -> None:
        """Record leaders that were fenced by a change of the metadata."""
        if image.brokers is before.brokers:
            return
        for broker_id, broker in before.brokers.items():
            now = image.brokers.get(broker_id)
            if now is not None and now.fenced and not broker.fenced and leads_any(before, broker_id):
                self._until_s[broker_id] = self._now_s() + RECENTLY_FENCED_S

    def ids(self, image: MetadataImage) -> frozenset[int]:
        """Return the brokers of `image` that were fenced as leaders less than `RECENTLY_FENCED_S` ago and still are."""
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
