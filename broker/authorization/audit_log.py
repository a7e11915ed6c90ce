"""The audit log: a line for refused authorizations, at a limited rate (Kafka: `kafka.authorizer.logger`).

Refusals with the same principal, host, operation, resource type and API share a line for `_INTERVAL_S`; it has one of
their names, and the number of the others. In each interval at most `_MAX_LINES` lines are written, and then one with
the number of what is not listed: clients choose what is refused, and must not fill the disk.

Client-supplied text is quoted as in JSON, so a line cannot be forged, and cut.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from broker.runtime.log_output import quoted
from broker.runtime.rate_limited_log import RateLimitedCounter
from controller.acls.acl import AclOperation, AclResourceType
from protocol.api import APIS, ApiKey

_INTERVAL_S = 10.0
_MAX_LINES = 50

_log = logging.getLogger("broker.audit")


class Refusal(NamedTuple):
    """An operation on a resource that a client was refused; the enums are numbers."""

    principal: str
    host: str
    operation: int
    resource_type: int
    name: str
    api_key: int
    client_id: str | None


class AuditLog:
    """The log of refused authorizations."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        """`now_s` returns a monotonic time in seconds."""
        self._now_s = now_s
        self._refusals = RateLimitedCounter(_INTERVAL_S)
        self._interval_began_s = now_s()
        self._lines = 0
        self._omitted = 0

    def add(self, refusal: Refusal, resources: int = 1) -> None:
        """Record that a client was refused an operation on `resources`, of which one is named."""
        now_s = self._now_s()
        if now_s - self._interval_began_s >= _INTERVAL_S:
            self._begin_interval(now_s)
        principal, host = quoted(refusal.principal), quoted(refusal.host)
        operation, resource_type = AclOperation(refusal.operation).name, AclResourceType(refusal.resource_type).name
        api = APIS[ApiKey(refusal.api_key)].name
        times = self._refusals.add(f"{principal} {host} {operation} {resource_type} {api}", now_s, resources)
        if not times:
            return
        if self._lines >= _MAX_LINES:
            self._omitted += times
            return
        self._lines += 1
        _log.warning(
            "Refused: principal=%s host=%s operation=%s resource=%s:%s api=%s client=%s%s",
            principal,
            host,
            operation,
            resource_type,
            quoted(refusal.name),
            api,
            quoted(refusal.client_id or ""),
            "" if times == 1 else f" and {times - 1:,} more refusals of this kind",
        )

    def _begin_interval(self, now_s: float) -> None:
        if self._omitted:
            _log.warning("%d more refused authorizations are not listed", self._omitted)
        self._interval_began_s, self._lines, self._omitted = now_s, 0, 0
