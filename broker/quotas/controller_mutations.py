"""Quotas of controller mutations: partitions created and deleted (KIP-599; Kafka: `ControllerMutationQuotaManager`).

The active controller counts the partitions of CreateTopics, CreatePartitions and DeleteTopics when it decides a topic.
Each client with a quota `controller_mutation_rate` has a token bucket, so that a burst is admitted, and the mutation
after it waits until the debt is repaid.

    strict        newer versions    a mutation during a debt is refused with THROTTLING_QUOTA_EXCEEDED
    permissive    older versions    every mutation is admitted; the response has the time to wait

The broker of the client mutes the connection for the response's throttle time (`throttling_dispatcher`). A controller
that becomes active starts with full buckets. Buckets that are full again are dropped, so the memory is bounded by the
clients that are active.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from broker.monitoring.rate import Rate, SampleWindow, ThrottleTimes
from broker.quotas.client_quotas import CONTROLLER_MUTATION, ClientQuotas
from broker.quotas.token_bucket import TokenBucket
from broker.quotas.usage_table import UsageTable
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from broker.quotas.client_quotas import Quota
    from controller.image import QuotaEntity

STRICT_FROM: Mapping[int, int] = {ApiKey.CREATE_TOPICS: 6, ApiKey.CREATE_PARTITIONS: 3, ApiKey.DELETE_TOPICS: 5}
"""The first version of each API in which a mutation above the quota is refused."""


class MutationQuota:
    """The quota of one request (Kafka: `ControllerMutationQuota`); this one is unlimited."""

    throttle_ms = 0
    """The time for which the client is to be throttled."""

    def record(self, partitions: int) -> None:
        """Record that partitions are created or deleted; KafkaError THROTTLING_QUOTA_EXCEEDED refuses that."""


UNLIMITED = MutationQuota()


class _LimitedQuota(MutationQuota):
    """The quota of one request of a client that has a limit."""

    def __init__(self, usage: MutationUsage, clock_ms: Callable[[], float], *, strict: bool) -> None:
        self._usage = usage
        self._clock_ms = clock_ms
        self._strict = strict

    def record(self, partitions: int) -> None:
        now_ms = self._clock_ms()
        usage = self._usage
        if self._strict and usage.bucket.tokens(now_ms) < 0:
            self.throttle_ms = usage.throttled(now_ms)
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        usage.bucket.record(partitions, now_ms)
        usage.mutations.record(partitions, now_ms)
        if not self._strict:
            self.throttle_ms = usage.throttled(now_ms)


class MutationUsage:
    """The mutations of the clients that share a quota."""

    __slots__ = ("bucket", "mutations", "throttle_times")

    def __init__(self, window: SampleWindow, limit: float, now_ms: float) -> None:
        self.bucket = TokenBucket(window, limit, now_ms)
        self.mutations = Rate(window)
        self.throttle_times = ThrottleTimes(window)

    def throttled(self, now_ms: float) -> int:
        """Return the time until the debt is repaid; metrics have it too."""
        throttle_ms = self.bucket.throttle_ms(now_ms)
        self.throttle_times.record(throttle_ms, now_ms)
        return throttle_ms

    def is_idle(self, now_ms: float) -> bool:
        """Return whether a new usage would be equal."""
        return self.bucket.is_full(now_ms) and self.mutations.is_idle(now_ms)


class ControllerMutationQuotaManager:
    """The usage of all clients with a quota of mutations."""

    def __init__(self, window: SampleWindow, clock_ms: Callable[[], float]) -> None:
        """Bursts are limited to what a quota admits in `window`; `clock_ms` is monotonic."""
        self._window = window
        self._clock_ms = clock_ms
        self._applied: Mapping[QuotaEntity, Mapping[str, float]] = {}
        self._quotas = ClientQuotas(self._applied)
        self._usages: UsageTable[tuple[str, str], MutationUsage] = UsageTable(MutationUsage.is_idle)

    @property
    def clients(self) -> int:
        """Return how many usages are kept."""
        return len(self._usages)

    def usages(self) -> Iterator[tuple[tuple[str, str], MutationUsage, float]]:
        """Yield the user and client id of each usage within its window, the usage, and the time."""
        now_ms = self._clock_ms()
        for shared_by, usage in self._usages.active(now_ms):
            yield shared_by, usage, now_ms

    def apply(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Use the quotas of a metadata image, unless they are in force; usage so far counts against new limits."""
        if quotas is not self._applied:
            self._applied = quotas
            self._quotas = ClientQuotas(quotas)

    def of_request(self, api_key: int, api_version: int, user: str, client_id: str) -> MutationQuota:
        """Return the quota of a client's request."""
        quota = self._quotas.of_client(CONTROLLER_MUTATION, user, client_id)
        if quota is None:
            return UNLIMITED
        is_strict = api_version >= STRICT_FROM[api_key]
        return _LimitedQuota(self._usage(quota), self._clock_ms, strict=is_strict)

    def _usage(self, quota: Quota) -> MutationUsage:
        now_ms = self._clock_ms()
        usage = self._usages.get(quota.shared_by)
        if usage is None:
            usage = self._usages.add(quota.shared_by, MutationUsage(self._window, quota.limit, now_ms), now_ms)
        usage.bucket.limit_to(quota.limit, now_ms)
        return usage
