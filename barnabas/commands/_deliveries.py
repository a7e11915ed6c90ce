"""Delivery state of produced records, per partition.

kafka-python retries errors for `delivery.timeout.ms`, and then fails with a timeout of its own. The errors that the
broker returned meanwhile are recorded here, to be reported.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.commands._output import amount_of, some

STORAGE_ERROR = "KAFKA_STORAGE_ERROR"


@dataclass
class Delivery:
    """The records of one partition."""

    name: str
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    progress_s: float = 0.0
    """The time of the last acknowledgement, or of sending the first waiting record if that is later."""
    error: str | None = None
    """The last error of the broker since the last acknowledgement."""
    detail: str | None = None
    broker: int | None = None
    since_s: float = 0.0

    @property
    def waiting(self) -> int:
        """Return the number of records that are neither acknowledged nor failed."""
        return self.sent - self.acknowledged - self.failed

    def stalled_s(self) -> float:
        """Return for how long records have waited without an acknowledgement; 0 if none waits."""
        return time.monotonic() - self.progress_s if self.waiting else 0.0

    def send(self) -> None:
        """Count a sent record."""
        if not self.waiting:
            self.progress_s = time.monotonic()
        self.sent += 1

    def acknowledge(self) -> None:
        """Count an acknowledgement, and clear the error."""
        self.acknowledged += 1
        self.progress_s = time.monotonic()
        self.error = None

    def refuse(self, error: str, detail: str | None, broker: int | None) -> None:
        """Record an error that a broker returned for a batch."""
        if error != self.error:
            self.since_s = time.monotonic()
        self.error, self.detail, self.broker = error, detail, broker

    def __str__(self) -> str:
        """Return the error, its duration, and the number of acknowledged records."""
        counted = f"{self.acknowledged:,} of {amount_of(self.sent, 'record')} acknowledged"
        if self.error is None:
            return f"{self.name}: {counted}"
        return f"{self.name}: {self.error} for {time.monotonic() - self.since_s:.0f} s{self._why()}; {counted}"

    def _why(self) -> str:
        if self.detail:
            return f" ({self.detail})"
        if self.error == STORAGE_ERROR and self.broker is not None:
            return f" (disk full on broker {self.broker}?)"
        return ""


class Deliveries:
    """All partitions to which records were sent."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Delivery] = {}

    def of(self, topic: str, partition: int) -> Delivery:
        """Return the delivery state of a partition."""
        key = (topic, partition)
        if key not in self._known:
            self._known[key] = Delivery(f"{topic}-{partition}")
        return self._known[key]

    def __iter__(self) -> Iterator[tuple[tuple[str, int], Delivery]]:
        """Yield each partition and its delivery state."""
        return iter(list(self._known.items()))

    @property
    def acknowledged(self) -> int:
        """Return the number of acknowledged records."""
        return sum(one.acknowledged for _, one in self)

    @property
    def waiting(self) -> int:
        """Return the number of records that may still be acknowledged."""
        return sum(one.waiting for _, one in self)

    def refused(self) -> str:
        """Return the partitions with an error, each with its `Delivery` text; "" if there are none."""
        return some([str(one) for _, one in self if one.error is not None])
