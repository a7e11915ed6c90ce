"""What a leader knows of another replica of its partition, by that replica's fetches in this leader epoch.

A follower is *caught up* while it has all that the leader has. One that never quite gets there under a steady load is
so too, as in Apache Kafka: with each fetch it was caught up at the latest moment of which the leader knows that it had
all there was then. A fetch that reaches the leader's end says so of now; one that reaches the end as of the fetch
before, of that fetch's time. Where nothing is appended nothing is fetched either, and no time passes for a follower
that is at the end: the append that leaves it behind says until when it was there.

Times are the loop's in ms, which no change of the clock moves. Who of the followers is in sync is `isr`'s.
"""

from __future__ import annotations

NO_EPOCH = -1
NO_OFFSET = -1
NEVER_MS = -(1 << 62)


class Follower:
    """How far another replica was when it last fetched in this leader epoch."""

    __slots__ = (
        "_end_then",
        "_fetched_ms",
        "awaited",
        "broker",
        "broker_epoch",
        "caught_up_ms",
        "fenced",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker: int, caught_up_ms: int = NEVER_MS) -> None:
        """Know nothing yet, but that it is taken for caught up at `caught_up_ms`: now, of one that is in sync."""
        self.broker = broker
        self.broker_epoch = NO_EPOCH
        self.log_end_offset = NO_OFFSET
        self.log_start_offset = NO_OFFSET
        self.caught_up_ms = caught_up_ms
        self.awaited = False
        """Whether the high watermark waits for it though it is not in sync: it is close, and is to get there."""
        self.fenced = False
        """Whether its broker does not take part: nobody waits for it to delete records."""
        self._fetched_ms = NEVER_MS
        self._end_then = NO_OFFSET

    def fetched(
        self, log_end_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int, broker_epoch: int
    ) -> None:
        """Note a fetch from `log_end_offset` on, by the incarnation `broker_epoch` of its broker (-1: not said)."""
        if log_end_offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif log_end_offset >= self._end_then != NO_OFFSET:
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.log_end_offset = log_end_offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._fetched_ms = now_ms
        self._end_then = leader_end_offset

    def lags(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        """Say whether it is behind, and has been for longer than `lag_max_ms` (`replica.lag.time.max.ms`)."""
        return self.log_end_offset != leader_end_offset and now_ms - self.caught_up_ms > lag_max_ms
