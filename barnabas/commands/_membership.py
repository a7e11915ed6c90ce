"""A member of a group whose rebalance lasts: how to keep kafka-python joining, and how to leave meanwhile.

Kafka answers the requests of a connection in order. JoinGroup is answered when every member has rejoined or its session
has timed out, so a LeaveGroup behind it on the same connection waits for as long. `leave` sends it on another one.
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
    """Return whether the member waits until the rebalance of its group ends."""
    return bool(client._coordinator.rebalance_in_progress())


def keep_joining(client: KafkaConsumer) -> None:
    """Have a member of a group end the join that it may be in; to be called before each `poll`.

    kafka-python 3.0.12 looks at each poll whether there is a reason to join: the group rebalances, or the topics are
    others than when it joined last. The second is over as soon as the request is out. If the poll ends before the
    response is there, the next ones see no reason, and the member waits for ever, without heartbeats.
    """
    if is_joining(client):
        client._coordinator.request_rejoin()


def leave(client: KafkaConsumer, options: argparse.Namespace) -> None:
    """Commit, leave the group and close, within `LEAVE_MS` also where the group rebalances or its coordinator is gone.

    A member commits before it joins, so that one that is joining has nothing to commit.
    """
    joining = is_joining(client)
    if joining:
        _leave_beside(client, options)
        client._coordinator.reset_generation()  # so that `close` sends no LeaveGroup
    client.close(autocommit=not joining, timeout_ms=LEAVE_MS)


def _leave_beside(client: KafkaConsumer, options: argparse.Namespace) -> None:
    from kafka.errors import KafkaError
    from kafka.protocol.consumer import LeaveGroupRequest

    coordinator = client._coordinator
    member_id = coordinator._generation.member_id
    if not (member_id and coordinator.is_dynamic_member()) or coordinator.coordinator_unknown():
        return
    member = LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=None, reason="interrupted")
    request = LeaveGroupRequest(group_id=coordinator.group_id, member_id=member_id, members=[member])
    node = int(str(coordinator.coordinator_id).removeprefix("coordinator-"))  # kafka-python's name of the connection
    with contextlib.suppress(CommandError, KafkaError), admin(options, request_timeout_ms=LEAVE_MS) as beside:
        send(beside, request, node)
