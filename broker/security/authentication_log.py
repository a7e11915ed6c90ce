"""Counts and audit lines of the authentications of one listener (Kafka: the sensors of `Selector`).

A refusal is a line of the logger `broker.audit`. Refusals from the same host share a line for `_INTERVAL_S`; it has the
last of them, and the number of the others: clients choose users, mechanisms and reasons, and must not fill the disk. At
most `MOST_REPORTS` hosts get a line in that time. Clients' text is quoted as in JSON, so that a line cannot be forged.
"""

from __future__ import annotations

import logging

from broker.monitoring.rate import Rate, SampleWindow
from broker.runtime.log_output import quoted
from broker.runtime.rate_limited_log import MOST_REPORTS, RateLimitedCounter

DEFAULT_WINDOW = SampleWindow(2, 30_000)
_INTERVAL_S = 10.0

_log = logging.getLogger("broker.audit")


class AuthenticationLog:
    """The authentications of one listener since the start."""

    __slots__ = (
        "_listener",
        "_refusals",
        "expired",
        "failed",
        "failed_again",
        "failed_again_rate",
        "failed_rate",
        "successful",
        "successful_again",
        "successful_again_rate",
        "successful_only_once",
        "successful_rate",
    )

    def __init__(self, listener: str, window: SampleWindow = DEFAULT_WINDOW) -> None:
        """Measure rates over `window`."""
        self._listener = listener
        self._refusals = RateLimitedCounter(_INTERVAL_S, MOST_REPORTS)
        self.successful = 0
        self.failed = 0
        # Those of the successful ones whose client does not support re-authentication (before SaslAuthenticate 1).
        self.successful_only_once = 0
        # Re-authentications (KIP-368).
        self.successful_again = 0
        self.failed_again = 0
        # Connections closed because the client did not authenticate again in time.
        self.expired = 0
        # Each per second.
        self.successful_rate, self.successful_again_rate = Rate(window), Rate(window)
        self.failed_rate, self.failed_again_rate = Rate(window), Rate(window)

    def succeeded(self, *, now_s: float, again: bool, only_once: bool) -> None:
        """Count an authentication; `again`: a re-authentication; `only_once`: the client supports none."""
        if again:
            self.successful_again += 1
            self.successful_again_rate.record(1, 1000 * now_s)
        else:
            self.successful += 1
            self.successful_only_once += only_once
            self.successful_rate.record(1, 1000 * now_s)

    def refused(self, why: str, *, user: str, host: str, mechanism: str, now_s: float, again: bool) -> None:
        """Count and log a refused authentication; `user` is the name that the client claims, empty if it did not."""
        if again:
            self.failed_again += 1
            self.failed_again_rate.record(1, 1000 * now_s)
        else:
            self.failed += 1
            self.failed_rate.record(1, 1000 * now_s)
        times = self._refusals.add(host, now_s)
        if times:
            _log.warning(
                "Refused authentication: user=%s host=%s listener=%s mechanism=%s reason=%s%s",
                quoted(user),
                quoted(host),
                self._listener,
                quoted(mechanism),
                quoted(why),
                "" if times == 1 else f" and {times - 1:,} more from this host",
            )
