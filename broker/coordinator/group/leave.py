"""Heartbeats, LeaveGroup and session timeouts."""

from __future__ import annotations

from broker.coordinator.group.classic_group import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    ClassicGroup,
    ClassicGroupMember,
)
from broker.coordinator.group.context import GroupContext, Leaving, Left, with_reason
from broker.coordinator.group.rebalance import complete, complete_if_joined, prepare, refuse_join, refuse_sync
from protocol.errors import ErrorCode


def heartbeat(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """Return NONE, REBALANCE_IN_PROGRESS if the member has to rejoin, or an error.

    After NONE and REBALANCE_IN_PROGRESS the caller renews the member's session.
    """
    error = group.check_member(member_id, instance_id)
    if error != ErrorCode.NONE:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state == PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(context: GroupContext, group: ClassicGroup, leaving: list[Leaving], to: object) -> None:
    """Remove members, with an error code for each; if that empties the group, answer once its record is committed."""
    errors = tuple(_remove(context, group, one) for one in leaving)

    def then(context: GroupContext, error: ErrorCode) -> None:
        context.answer(to, Left(error, errors if error == ErrorCode.NONE else ()))

    waits = False
    if ErrorCode.NONE in errors:
        if group.state == PREPARING:
            waits = complete_if_joined(context, group, then)
        elif group.state != EMPTY:
            waits = prepare(context, group, "members left", then)
    if not waits:
        then(context, ErrorCode.NONE)


def _remove(context: GroupContext, group: ClassicGroup, leaving: Leaving) -> ErrorCode:
    member_id = leaving.member_id
    if not member_id and leaving.instance_id is not None:
        member_id = group.static_members.get(leaving.instance_id, "")
    elif member_id in group.pending:
        group.remove(member_id)
        return ErrorCode.NONE
    error = group.check_member(member_id, leaving.instance_id)
    if error == ErrorCode.NONE:
        context.log.debug("group %s: %s", group.group_id, with_reason(f"member {member_id} leaves", leaving.reason))
        _remove_member(context, group, group.members[member_id])
    return error


def session_expired(context: GroupContext, group: ClassicGroup, member_id: str) -> None:
    """Remove a member whose session expired, or a pending member that did not join in time."""
    if member_id in group.pending:
        context.log.debug("group %s: pending member %s did not join", group.group_id, member_id)
        group.remove(member_id)
    else:
        member = group.members.get(member_id)
        if member is None or member.keeps_session:
            return
        context.log.info("group %s: the session of member %s expired", group.group_id, member_id)
        _remove_member(context, group, member)
        if group.state in (STABLE, COMPLETING):
            prepare(context, group, f"the session of member {member_id} expired")
            return
    if group.state == PREPARING and group.all_joined:
        complete(context, group)


def _remove_member(context: GroupContext, group: ClassicGroup, member: ClassicGroupMember) -> None:
    # UNKNOWN_MEMBER_ID without a member id makes a waiting client join as a new member.
    refuse_join(context, member, ErrorCode.UNKNOWN_MEMBER_ID, "")
    refuse_sync(context, member, ErrorCode.UNKNOWN_MEMBER_ID)
    group.remove(member.member_id)
