"""The usage of each client, and for how long it is to be throttled (Kafka: `ClientQuotaManager`).

    kind       recorded                                         throttled for
    PRODUCE    bytes of a Produce request                       the time in which the rate falls to the quota
    FETCH      bytes of a Fetch response                        as long
    REQUEST    time of the event loop, as a percentage of it    as long, but for one sample at most (KIP-124)

The response is not delayed: it has `throttle_time_ms`, and the connection is not read for that time (KIP-219), so a
client that ignores the field is throttled too. Usage is kept for those who share a quota (`client_quotas`). What has
left the window counts as nothing and is dropped, so the memory is bounded by the clients of one window.

Pure: time is passed in, in ms of a monotonic clock. Muting is `broker.network`'s, the requests are
`throttling_dispatcher`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from broker.quotas.client_quotas import REQUEST, ClientQuotas, Quota
from broker.quotas.rate import Rate, SampleWindow
from controller.image import QuotaEntity

_Usage: TypeAlias = tuple[str, tuple[str, str]]

_FEWEST_SWEPT = 100


class QuotaManager:
    """The usage of all clients with a quota."""

    def __init__(self, window: SampleWindow) -> None:
        """Rates are measured over `window`."""
        self._window = window
        self._applied: Mapping[QuotaEntity, Mapping[str, float]] = {}
        self._quotas = ClientQuotas(self._applied)
        self._rates: dict[_Usage, Rate] = {}
        self._sweep_at = _FEWEST_SWEPT

    @property
    def quotas(self) -> ClientQuotas:
        """Return the quotas in force."""
        return self._quotas

    @property
    def clients(self) -> int:
        """Return how many usages are kept."""
        return len(self._rates)

    def apply(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Use the quotas of a metadata image, unless they are in force; usage so far counts against new limits."""
        if quotas is not self._applied:
            self._applied = quotas
            self._quotas = ClientQuotas(quotas)

    def record(self, kind: str, user: str, client_id: str, value: float, now_ms: float) -> int:
        """Record usage; return for how many ms the client is to be throttled, 0 if it is within its quota."""
        quota = self._quotas.of_client(kind, user, client_id)
        if quota is None:
            return 0
        rate = self._rate(kind, quota, now_ms)
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(quota.limit, now_ms)
        return min(throttle_ms, self._window.sample_ms) if kind == REQUEST else throttle_ms

    def _rate(self, kind: str, quota: Quota, now_ms: float) -> Rate:
        key = (kind, quota.shared_by)
        rate = self._rates.get(key)
        if rate is None:
            self._sweep(now_ms)
            rate = self._rates[key] = Rate(self._window)
        return rate

    def _sweep(self, now_ms: float) -> None:
        """Drop usage outside the window, each time that the number of clients has doubled."""
        if self.clients < self._sweep_at:
            return
        self._rates = {key: rate for key, rate in self._rates.items() if not rate.is_idle(now_ms)}
        self._sweep_at = max(2 * self.clients, _FEWEST_SWEPT)
