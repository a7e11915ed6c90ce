"""The leader's view of another replica (Kafka: `Replica`, `ReplicaState`), from its fetches in this leader epoch.

A follower is *caught up* while its log end offset equals the leader's. As in Kafka, a follower that trails slightly
under steady load counts as caught up too: `caught_up_ms` is the latest time at which it is known to have had everything
that the leader had at that time. A fetch at the leader's end sets it to now; a fetch at or past the leader's end as of
the previous fetch sets it to the time of that fetch. On an idle partition no fetch arrives, so no lag accrues for a
follower at the end: the next append sets its `caught_up_ms` (`Partition.append_as_leader`).

Times are the loop's monotonic clock, in ms. `isr` decides by `lags` which followers leave the ISR.
"""

NO_EPOCH = -1
NO_OFFSET = -1
NEVER_MS = -(1 << 62)


class ReplicaState:
    """State of one other replica, as of its last fetch in this leader epoch."""

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
        """Begin without offsets; `caught_up_ms` is the current time for a member of the ISR."""
        self.broker = broker
        self.broker_epoch = NO_EPOCH
        self.log_end_offset = NO_OFFSET
        self.log_start_offset = NO_OFFSET
        self.caught_up_ms = caught_up_ms
        self.awaited = False
        """Whether it bounds the high watermark though it is outside the ISR: it is about to join."""
        self.fenced = False
        """Whether its broker is fenced: the low watermark ignores it."""
        self._fetched_ms = NEVER_MS
        self._end_then = NO_OFFSET

    def fetched(
        self, log_end_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int, broker_epoch: int
    ) -> None:
        """Record a fetch from `log_end_offset`. `broker_epoch` is -1 if the request does not carry it."""
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
        """Return whether it is behind, and has been for longer than `lag_max_ms` (`replica.lag.time.max.ms`)."""
        return self.log_end_offset != leader_end_offset and now_ms - self.caught_up_ms > lag_max_ms
