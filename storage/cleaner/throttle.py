"""How long to rest for compaction to read and write no more than so many bytes a second: a token bucket."""

_BURST_S = 0.1


class Throttle:
    """Bytes that may be used now, filled up at a rate; at most what comes in a tenth of a second is saved up."""

    __slots__ = ("_bytes", "_last_s", "bytes_per_s")

    def __init__(self, bytes_per_s: float, now_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self._last_s = now_s
        self._bytes = 0.0

    def use(self, size_bytes: int, now_s: float) -> float:
        """Count what was read and written, and return for how many seconds to rest from `now_s` on."""
        rate = self.bytes_per_s
        earned = (now_s - self._last_s) * rate
        self._last_s = now_s
        self._bytes = min(self._bytes + earned, rate * _BURST_S) - size_bytes
        return max(-self._bytes / rate, 0.0)
