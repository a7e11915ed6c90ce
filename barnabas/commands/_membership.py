"""Workarounds for kafka-python while a group rebalances: keeping a member joining, and leaving meanwhile.

Kafka answers the requests of a connection in order. JoinGroup is answered when every member has rejoined or its session
has expired, so a LeaveGroup behind it on the same connection waits as long. `leave` sends it on another connection.
"""

from __future__ import annotations

import argparse
import contextlib
from typing import TYPE_CHECKING

from barnabas.commands._client import admin, send
from barnabas.commands._output import CommandError

if TYPE_CHECKING:
    from kafka import KafkaConsumer

LEAVE_MS = 3000
"""How long an interrupted member waits for the responses to its last commit and LeaveGroup."""


def is_joining(client: KafkaConsumer) -> bool:
    """Return whether the member waits for the end of a rebalance."""
    return bool(client._coordinator.rebalance_in_progress())


def waits_for_others(client: KafkaConsumer, options: argparse.Namespace) -> bool:
    """Return whether a group that rebalances has members besides this one; True if that is unknown.

    An empty group has none: it waits for `group.initial.rebalance.delay.ms` before its first generation.
    """
    from kafka.errors import KafkaError

    group, own = client.config["group_id"], client._coordinator._generation.member_id
    with contextlib.suppress(CommandError, KafkaError), admin(options, request_timeout_ms=LEAVE_MS) as beside:
        members = beside.describe_groups([group])[group]["members"]
        return any(member["member_id"] != own for member in members)
    return True


def keep_joining(client: KafkaConsumer) -> None:
    """Make a member complete a pending join; to be called before each `poll`.

    kafka-python 3.0.12 checks at each poll for a reason to join: the group rebalances, or the topics differ from those
    of the last join. The second is cleared as soon as the request is sent. If the poll ends before the response
    arrives, later polls see no reason, and the member waits forever, without heartbeats.
    """
    if is_joining(client):
        client._coordinator.request_rejoin()


def leave(client: KafkaConsumer, options: argparse.Namespace) -> None:
    """Commit, leave the group and close, within `LEAVE_MS` even if the group rebalances or has no coordinator.

    A member commits before it joins, so a joining one has nothing to commit. It is closed before it leaves:
    kafka-python joins again, with a new member id, as soon as its JoinGroup is answered with UNKNOWN_MEMBER_ID.
    """
    if not is_joining(client):
        client.close(timeout_ms=LEAVE_MS)
        return
    coordinator = client._coordinator
    member_id, node = coordinator._generation.member_id, coordinator.coordinator_id
    leaves = bool(member_id) and coordinator.is_dynamic_member() and not coordinator.coordinator_unknown()
    coordinator.reset_generation()  # so that `close` sends no LeaveGroup
    client.close(autocommit=False, timeout_ms=LEAVE_MS)
    if leaves:
        _leave_beside(member_id, str(node), options)


def _leave_beside(member_id: str, node: str, options: argparse.Namespace) -> None:
    """Leave the group by a connection of its own; `node` is kafka-python's name of the coordinator's connection."""
    from kafka.errors import KafkaError
    from kafka.protocol.consumer import LeaveGroupRequest

    member = LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=None, reason="interrupted")
    request = LeaveGroupRequest(group_id=options.group, member_id=member_id, members=[member])
    with contextlib.suppress(CommandError, KafkaError), admin(options, request_timeout_ms=LEAVE_MS) as beside:
        send(beside, request, int(node.removeprefix("coordinator-")))
