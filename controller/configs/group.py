"""Configurations of single groups (KIP-848, KIP-932, KIP-1071), and the limits that the brokers' set them.

Each begins with the protocol that it belongs to. What a group does not set it has from the broker, where the name
begins with `group.`, as in `group.consumer.session.timeout.ms`; three exist for groups alone. They are kept and told
now; they have their effect with the protocols, which are not there yet.
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
        The shortest time between two assignments of the group.
    consumer.heartbeat.interval.ms INT 5000 cluster-wide 1..
        How often the members of the group are to send a heartbeat.
    consumer.session.timeout.ms INT 45000 cluster-wide 1..
        After how long without a heartbeat a member of the group is taken for gone.
    share.assignment.interval.ms INT 1000 cluster-wide 0..
        The shortest time between two assignments of the share group.
    share.auto.offset.reset STRING latest cluster-wide
        Where the share group begins: `earliest`, `latest`, or `by_duration:` with a time before now, in ISO 8601.
    share.delivery.count.limit INT 5 cluster-wide 2..
        How often a record is delivered to the share group before it is given up.
    share.heartbeat.interval.ms INT 5000 cluster-wide 1..
        How often the members of the share group are to send a heartbeat.
    share.isolation.level STRING read_uncommitted cluster-wide read_committed|read_uncommitted
        Whether the share group gets records of open and aborted transactions.
    share.partition.max.record.locks INT 2000 cluster-wide 100..
        How many records of a partition may be out for delivery to the share group at once.
    share.record.lock.duration.ms INT 30000 cluster-wide 1000..
        How long a member may keep a record before another gets it.
    share.renew.acknowledge.enable BOOLEAN true cluster-wide
        Whether a member may ask for more time with a record.
    share.session.timeout.ms INT 45000 cluster-wide 1..
        After how long without a heartbeat a member of the share group is taken for gone.
    streams.assignment.interval.ms INT 1000 cluster-wide 0..
        The shortest time between two assignments of the streams group.
    streams.heartbeat.interval.ms INT 5000 cluster-wide 1..
        How often the members of the streams group are to send a heartbeat.
    streams.initial.rebalance.delay.ms INT 3000 cluster-wide 0..
        How long the streams group, when it is empty, waits for more members before its first assignment.
    streams.num.standby.replicas INT 0 cluster-wide 0..
        How many further members keep a copy of each task's state.
    streams.session.timeout.ms INT 45000 cluster-wide 1..
        After how long without a heartbeat a member of the streams group is taken for gone.
    """,
    without_effect="the consumer, share and streams group protocols are not there yet",
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

# What the broker has under another name, with `group.` in front.
_PREFIX = "group."

# What lies between the broker's `group.PROTOCOL.min.` and `group.PROTOCOL.max.` of the same name.
_ALL_HAVE = ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
_BOUNDED = {
    "consumer": _ALL_HAVE,
    "share": (*_ALL_HAVE, "record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"),
    "streams": _ALL_HAVE,
}


def broker_synonym(name: str) -> str | None:
    """Return the broker's configuration that a group's falls back to."""
    found = _PREFIX + name
    return found if found in BROKER_CONFIGS else None


def check_within_limits(value: Callable[[str], Any], limit: Callable[[str], Any], prefix: str = "") -> None:
    """Raise ConfigConflictError unless a group's values are within the broker's limits, and its session above a beat.

    With the prefix `group.` it is the broker's own values, the defaults of all groups, that are checked.
    """
    for protocol, names in _BOUNDED.items():
        for name in names:
            own = f"{prefix}{protocol}.{name}"
            least, most = f"group.{protocol}.min.{name}", f"group.{protocol}.max.{name}"
            if value(own) < limit(least):
                raise ConfigConflictError(own, f"{own} must be greater than or equal to {least}")
            if value(own) > limit(most):
                raise ConfigConflictError(own, f"{own} must be less than or equal to {most}")
        beat, session = (f"{prefix}{protocol}.{name}" for name in _ALL_HAVE[:2])
        if value(session) <= value(beat):
            raise ConfigConflictError(session, f"{session} must be greater than {beat}")
    standbys, most = f"{prefix}streams.num.standby.replicas", "group.streams.max.standby.replicas"
    if value(standbys) > limit(most):
        raise ConfigConflictError(standbys, f"{standbys} must be less than or equal to {most}")
