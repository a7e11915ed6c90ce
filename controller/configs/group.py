"""Group configs (KIP-848, KIP-932, KIP-1071), and the limits that broker configs set for them.

Each name starts with the protocol that it belongs to. A config that a group does not set falls back to the broker's,
whose name has the prefix `group.`, as in `group.consumer.session.timeout.ms`; three exist for groups only. They are
stored and returned, but have no effect until these protocols are supported.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from controller.configs.broker import BROKER_CONFIGS
from controller.configs.config_table import table
from controller.configs.definition import ConfigConflictError, ConfigDef

_DEFINITIONS = table(
    """
    consumer.assignment.interval.ms INT 1000 cluster-wide 0..
        Minimum interval between two assignments of the group.
    consumer.heartbeat.interval.ms INT 5000 cluster-wide 1..
        Interval of the heartbeats of the group's members.
    consumer.session.timeout.ms INT 45000 cluster-wide 1..
        Time without a heartbeat after which a member is removed from the group.
    share.assignment.interval.ms INT 1000 cluster-wide 0..
        Minimum interval between two assignments of the share group.
    share.auto.offset.reset STRING latest cluster-wide
        The start of the share group: `earliest`, `latest`, or `by_duration:` with a time before now in ISO 8601.
    share.delivery.count.limit INT 5 cluster-wide 2..
        Maximum number of deliveries of a record to the share group.
    share.heartbeat.interval.ms INT 5000 cluster-wide 1..
        Interval of the heartbeats of the share group's members.
    share.isolation.level STRING read_uncommitted cluster-wide read_committed|read_uncommitted
        Whether the share group gets records of open and aborted transactions.
    share.partition.max.record.locks INT 2000 cluster-wide 100..
        Maximum number of records of a partition that the share group can have acquired at once.
    share.record.lock.duration.ms INT 30000 cluster-wide 1000..
        Time for which a member holds a record before it is available to others again.
    share.renew.acknowledge.enable BOOLEAN true cluster-wide
        Whether a member can extend its hold on a record.
    share.session.timeout.ms INT 45000 cluster-wide 1..
        Time without a heartbeat after which a member is removed from the share group.
    streams.assignment.interval.ms INT 1000 cluster-wide 0..
        Minimum interval between two assignments of the streams group.
    streams.heartbeat.interval.ms INT 5000 cluster-wide 1..
        Interval of the heartbeats of the streams group's members.
    streams.initial.rebalance.delay.ms INT 3000 cluster-wide 0..
        Time that an empty streams group waits for more members before its first assignment.
    streams.num.standby.replicas INT 0 cluster-wide 0..
        Number of standby copies of each task's state.
    streams.session.timeout.ms INT 45000 cluster-wide 1..
        Time without a heartbeat after which a member is removed from the streams group.
    """,
    without_effect="the consumer, share and streams group protocols are not supported yet",
)

_DURATION = re.compile(
    r"by_duration:P(?=.)(?:[+]?\d+D)?(?:T(?=.)(?:[+]?\d+H)?(?:[+]?\d+M)?(?:[+]?\d+(?:[.,]\d{0,9})?S)?)?", re.IGNORECASE
)


def _offset_reset(value: str) -> str | None:
    if value in ("earliest", "latest") or (_DURATION.fullmatch(value) and value.startswith("by_duration:")):
        return None
    return (
        f"Invalid value `{value}` for configuration {{name}}. The value must be either 'earliest', 'latest' or of the "
        "format 'by_duration:<PnDTnHnMn.nS>'."
    )


GROUP_CONFIGS: dict[str, ConfigDef] = {
    one.name: one._replace(validator=_offset_reset) if one.name == "share.auto.offset.reset" else one
    for one in _DEFINITIONS
}

# Prefix of the broker configs that group configs fall back to.
_PREFIX = "group."

# Configs with the limits `group.PROTOCOL.min.NAME` and `group.PROTOCOL.max.NAME` of the broker.
_COMMON_LIMITS = ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
_BOUNDED = {
    "consumer": _COMMON_LIMITS,
    "share": (*_COMMON_LIMITS, "record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"),
    "streams": _COMMON_LIMITS,
}


def broker_synonym(name: str) -> str | None:
    """Return the broker config that a group config falls back to, or None."""
    found = _PREFIX + name
    return found if found in BROKER_CONFIGS else None


def check_within_limits(value: Callable[[str], Any], limit: Callable[[str], Any], prefix: str = "") -> None:
    """Raise ConfigConflictError unless values are within the broker's limits and sessions exceed heartbeat intervals.

    With the prefix `group.` the broker's own values, the defaults of all groups, are checked.
    """
    for protocol, names in _BOUNDED.items():
        for name in names:
            own = f"{prefix}{protocol}.{name}"
            least, most = f"group.{protocol}.min.{name}", f"group.{protocol}.max.{name}"
            if value(own) < limit(least):
                raise ConfigConflictError(own, f"{own} must be greater than or equal to {least}")
            if value(own) > limit(most):
                raise ConfigConflictError(own, f"{own} must be less than or equal to {most}")
        heartbeat, session = (f"{prefix}{protocol}.{name}" for name in _COMMON_LIMITS[:2])
        if value(session) <= value(heartbeat):
            raise ConfigConflictError(session, f"{session} must be greater than {heartbeat}")
    standbys, most = f"{prefix}streams.num.standby.replicas", "group.streams.max.standby.replicas"
    if value(standbys) > limit(most):
        raise ConfigConflictError(standbys, f"{standbys} must be less than or equal to {most}")
