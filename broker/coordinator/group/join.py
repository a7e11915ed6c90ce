"""Handling of JoinGroup: admission, member ids, and replacement of static members.

A new dynamic member first gets its member id with MEMBER_ID_REQUIRED and joins again with it (KIP-394), so a client
that gives up on its request does not remain as a member. Older versions of the request are admitted at once. A new
member's first session lasts `NEW_MEMBER_SESSION_MS`, 5 minutes: it may not know its id yet, which heartbeats need. A
rejoin starts a rebalance only if the member changed its protocols or their metadata, or is the leader, which may know
of new partitions.

A new join of a known instance (KIP-345) replaces and fences the instance's former member. In a stable group whose
protocol stays the same that needs no rebalance: only the new member id is stored, and if that fails the former member
is restored.
"""

from __future__ import annotations

from broker.coordinator.group.classic_group import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    ClassicGroup,
    ClassicGroupMember,
)
from broker.coordinator.group.context import GroupContext, Join, Joined, with_reason
from broker.coordinator.group.rebalance import (
    complete_if_joined,
    current_generation,
    prepare,
    prepare_or_complete,
    refuse_join,
    refuse_sync,
    renew_session,
)
from broker.coordinator.group.records import group_record
from protocol.errors import ErrorCode, InvariantError

NEW_MEMBER_SESSION_MS = 300_000


def join(context: GroupContext, group: ClassicGroup, request: Join, to: object) -> None:
    """Answer `request` at `to`, now or when its rebalance ends."""
    member_id = request.member_id
    if not _has_room(context, group, member_id):
        group.remove(member_id)
        context.answer(to, Joined(ErrorCode.GROUP_MAX_SIZE_REACHED))
        complete_if_joined(context, group)
    elif not group.accepts_protocols(request.protocol_type, request.protocols):
        context.answer(to, Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
    elif not member_id:
        _join_new(context, group, request, to)
    elif member_id in group.pending and request.instance_id is None:
        _add(context, group, request, member_id, to)
    else:
        error = group.check_member(member_id, request.instance_id)
        if error != ErrorCode.NONE:
            context.answer(to, Joined(error, member_id))
        else:
            _rejoin(context, group, request, group.members[member_id], to)


def _has_room(context: GroupContext, group: ClassicGroup, member_id: str) -> bool:
    if group.state == EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state == PREPARING:
        # Counts waiting joins, not members: after the limit is lowered, the last to rejoin are refused.
        return (member is not None and member.awaiting_join is not None) or group.joined < context.settings.max_size
    return member is not None or len(group.members) < context.settings.max_size


def _join_new(context: GroupContext, group: ClassicGroup, request: Join, to: object) -> None:
    instance_id = request.instance_id
    if instance_id is not None:
        new_id = context.new_member_id(instance_id)
        old_id = group.static_members.get(instance_id)
        if old_id is None:
            _add(context, group, request, new_id, to)
        else:
            _replace(context, group, request, group.members[old_id], new_id, to)
        return
    new_id = context.new_member_id(request.client_id)
    if not request.needs_member_id:
        _add(context, group, request, new_id, to)
        return
    context.schedule(group.add_pending(new_id), request.session_timeout_ms)
    context.answer(to, Joined(ErrorCode.MEMBER_ID_REQUIRED, new_id))


def _add(context: GroupContext, group: ClassicGroup, request: Join, member_id: str, to: object) -> None:
    member = ClassicGroupMember(
        group.group_id,
        member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=request.protocols,
    )
    member.awaiting_join = to
    member.is_new = True
    group.member_added = True
    group.add(member)
    context.schedule(member.session, NEW_MEMBER_SESSION_MS)
    prepare_or_complete(context, group, with_reason(f"member {member_id} joins", request.reason))


def _rejoin(context: GroupContext, group: ClassicGroup, request: Join, member: ClassicGroupMember, to: object) -> None:
    is_leader = group.leader == member.member_id
    if group.state == COMPLETING and member.supports_exactly(request.protocols):
        # The first response was probably lost.
        context.answer(to, current_generation(group, member.member_id))
    elif group.state == STABLE and not is_leader and member.supports_exactly(request.protocols):
        context.answer(to, current_generation(group, member.member_id))
    else:
        _update(context, group, request, member, to)
        prepare_or_complete(context, group, with_reason(f"member {member.member_id} rejoins", request.reason))


def _update(context: GroupContext, group: ClassicGroup, request: Join, member: ClassicGroupMember, to: object) -> None:
    # The client has abandoned an earlier join of this member; answer it anyway.
    refuse_join(context, member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
    group.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    member.awaiting_join = to


def _replace(
    context: GroupContext, group: ClassicGroup, request: Join, old: ClassicGroupMember, new_id: str, to: object
) -> None:
    leader = group.leader
    refuse_join(context, old, ErrorCode.FENCED_INSTANCE_ID, old.member_id)
    refuse_sync(context, old, ErrorCode.FENCED_INSTANCE_ID)
    new = group.replace_static(old, new_id)
    renew_session(context, new)
    _update(context, group, request, new, to)
    context.log.debug("group %s: member %s replaces %s", group.group_id, new_id, old.member_id)
    if group.state == STABLE and group.elect_protocol() == group.protocol:
        _store_replacement(context, group, request, old, new, leader)
    elif group.state == PREPARING:
        complete_if_joined(context, group)
    elif group.state in (COMPLETING, STABLE):
        # The leader may be computing an assignment for the old member id.
        prepare(context, group, with_reason(f"static member {new_id} replaces {old.member_id}", request.reason))
    else:
        raise InvariantError(f"group {group.group_id} has a static member in state {group.state}")


def _store_replacement(
    context: GroupContext,
    group: ClassicGroup,
    request: Join,
    old: ClassicGroupMember,
    new: ClassicGroupMember,
    former_leader: str | None,
) -> None:
    def then(context: GroupContext, error: ErrorCode) -> None:
        to = new.awaiting_join
        if to is None or group.members.get(new.member_id) is not new:
            return
        if error == ErrorCode.NONE:
            new.awaiting_join = None
            renew_session(context, new)  # it may have expired while the member waited
            context.answer(to, _replacement_answer(group, request, new, former_leader))
        elif group.state == STABLE:
            new.awaiting_join = None
            group.restore_static(new, old)
            renew_session(context, old)
            context.answer(to, Joined(error))
        # Else a rebalance began meanwhile; the new member takes part in it, and is stored with its result.

    assignments = {member.member_id: member.assignment for member in group.members.values()}
    context.append([group_record(group, assignments)], then)


def _replacement_answer(
    group: ClassicGroup, request: Join, new: ClassicGroupMember, former_leader: str | None
) -> Joined:
    answer = current_generation(group, new.member_id)
    if request.can_skip_assignment:
        return answer._replace(skip_assignment=group.leader == new.member_id)
    # Without skip_assignment a client must not learn that it leads: it would compute a new assignment.
    return answer._replace(leader=former_leader or "", members=())
