"""Handling of SyncGroup: members wait until the leader's assignment is stored.

The group becomes stable only once the record with the assignment is below the high watermark. If it cannot be written,
every waiting sync gets the error, and the group rebalances.
"""

from __future__ import annotations

from broker.coordinator.group.classic_group import COMPLETING, PREPARING, STABLE, ClassicGroup
from broker.coordinator.group.context import GroupContext, Sync, Synced
from broker.coordinator.group.rebalance import answer_syncs, prepare, refuse_sync
from broker.coordinator.group.records import group_record
from protocol.errors import ErrorCode
from protocol.plural import count_of


def sync(context: GroupContext, group: ClassicGroup, request: Sync, to: object) -> None:
    """Answer `request` at `to`, now or when the assignment is stored."""
    error = _check(group, request)
    if error != ErrorCode.NONE:
        context.answer(to, Synced(error))
        return
    member = group.members[request.member_id]
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        group.syncs.cancel()
    if group.state == STABLE:
        assigned = Synced(ErrorCode.NONE, group.protocol_type, group.protocol, member.assignment)
        # A former coordinator's record of this generation may not be committed yet: another one could lack it.
        context.append([], lambda context, error: context.answer(to, Synced(error) if error else assigned))
        return
    # The client has abandoned an earlier sync of this member; answer it anyway.
    refuse_sync(context, member, ErrorCode.REBALANCE_IN_PROGRESS)
    member.awaiting_sync = to
    if group.leader == member.member_id:
        _store_assignment(context, group, request.assignments)


def _check(group: ClassicGroup, request: Sync) -> ErrorCode:
    error = group.check_member(request.member_id, request.instance_id)
    if error != ErrorCode.NONE:
        return error
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state == PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differ(requested: str | None, current: str | None) -> bool:
    return requested is not None and current is not None and requested != current


def _store_assignment(context: GroupContext, group: ClassicGroup, assigned: dict[str, bytes]) -> None:
    generation = group.generation
    assignments = {member_id: assigned.get(member_id, b"") for member_id in group.members}

    def then(context: GroupContext, error: ErrorCode) -> None:
        if group.state != COMPLETING or group.generation != generation:
            return
        if error != ErrorCode.NONE:
            answer_syncs(context, group, error)
            prepare(context, group, f"storing the assignment failed: {error.name}")
            return
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        group.transition_to(STABLE, context.now_ms)
        answer_syncs(context, group, ErrorCode.NONE)
        members = count_of(len(group.members), "member")
        context.log.info("group %s: generation %d is stable with %s", group.group_id, generation, members)

    context.append([group_record(group, assignments)], then)
