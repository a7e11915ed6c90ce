"""Limits the I/O of the cleaner to a number of bytes per second: a token bucket (Kafka: `Throttler`)."""

_BURST_S = 0.1


class Throttle:
    """A token bucket that fills at `bytes_per_s` and holds at most 0.1 s of it."""

    __slots__ = ("_bytes", "_last_s", "bytes_per_s")

    def __init__(self, bytes_per_s: float, now_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self._last_s = now_s
        self._bytes = 0.0

    def use(self, size_bytes: int, now_s: float) -> float:
        """Take `size_bytes` that were read or written, and return for how many seconds to pause from `now_s` on."""
        rate = self.bytes_per_s
        earned = (now_s - self._last_s) * rate
        self._last_s = now_s
        self._bytes = min(self._bytes + earned, rate * _BURST_S) - size_bytes
        return max(-self._bytes / rate, 0.0)
