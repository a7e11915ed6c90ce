"""The usage of each client, and for how long it is to be throttled (Kafka: `ClientQuotaManager`).

    kind       recorded                                         throttled for
    PRODUCE    bytes of a Produce request                       the time in which the rate falls to the quota
    FETCH      bytes of a Fetch response                        as long
    REQUEST    time of the event loop, as a percentage of it    as long, but for one sample at most (KIP-124)

The response is not delayed: it has `throttle_time_ms`, and the connection is not read for that time (KIP-219), so a
client that ignores the field is throttled too. Clients that share a quota share their usage (`client_quotas`). What has
left the window counts as nothing and is dropped, so the memory is bounded by the clients of one window.

Pure: time is passed in, in ms of a monotonic clock. Muting is `broker.network`'s, the requests are
`throttling_dispatcher`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from broker.monitoring.rate import Rate, SampleWindow, ThrottleTimes
from broker.quotas.client_quotas import REQUEST, ClientQuotas, Quota
from broker.quotas.usage_table import UsageTable
from controller.image import QuotaEntity

_SharedQuota: TypeAlias = tuple[str, tuple[str, str]]


class Usage(NamedTuple):
    """The usage of one quota by the clients that share it."""

    rate: Rate
    throttle_times: ThrottleTimes


class QuotaManager:
    """The usage of all clients with a quota."""

    def __init__(self, window: SampleWindow) -> None:
        """Rates are measured over `window`."""
        self._window = window
        self._applied: Mapping[QuotaEntity, Mapping[str, float]] = {}
        self._quotas = ClientQuotas(self._applied)
        self._usages: UsageTable[_SharedQuota, Usage] = UsageTable(lambda usage, now_ms: usage.rate.is_idle(now_ms))

    @property
    def clients(self) -> int:
        """Return how many usages are kept."""
        return len(self._usages)

    def usages(self, kind: str, now_ms: float) -> Iterator[tuple[tuple[str, str], Usage]]:
        """Yield the user and client id of each usage of a kind of quota within the window, and the usage."""
        for (each, shared_by), usage in self._usages.active(now_ms):
            if each == kind:
                yield shared_by, usage

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
        usage = self._usage(kind, quota, now_ms)
        usage.rate.record(value, now_ms)
        throttle_ms = usage.rate.throttle_ms(quota.limit, now_ms)
        if kind == REQUEST:
            throttle_ms = min(throttle_ms, self._window.sample_ms)
        usage.throttle_times.record(throttle_ms, now_ms)
        return throttle_ms

    def _usage(self, kind: str, quota: Quota, now_ms: float) -> Usage:
        key = (kind, quota.shared_by)
        usage = self._usages.get(key)
        if usage is None:
            usage = self._usages.add(key, Usage(Rate(self._window), ThrottleTimes(self._window)), now_ms)
        return usage
