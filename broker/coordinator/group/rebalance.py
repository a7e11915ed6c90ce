"""The rebalance between two generations: waits for the members' joins, then starts the next generation.

A rebalance ends when every member has joined, or after the rebalance timeout (the largest of any member). Then dynamic
members that have not joined are removed; static ones stay until their sessions expire. A group's first rebalance waits
`group.initial.rebalance.delay.ms` instead, so that consumers that start together share one generation, and again while
new members keep joining, up to the rebalance timeout (KIP-134). After that every member must also sync within the
rebalance timeout, or is removed.
"""

from collections.abc import Callable

from broker.coordinator.group.classic_group import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    ClassicGroup,
    ClassicGroupMember,
)
from broker.coordinator.group.context import GroupContext, Joined, JoinedMember, Synced
from broker.coordinator.group.records import group_record
from protocol.errors import ErrorCode
from protocol.plural import count_of

Then = Callable[[GroupContext, ErrorCode], None]

_MIN_FURTHER_WAIT_MS = 1_000
"""Minimum further wait of a rebalance that no member has joined: the rebalance timeout may be 0."""


def prepare(context: GroupContext, group: ClassicGroup, reason: str, then: Then | None = None) -> bool:
    """Start a rebalance, and end it at once if no join is outstanding.

    If the group has become empty, return True, and call `then` once that is stored.
    """
    if group.state == COMPLETING:
        for member in group.members.values():
            member.assignment = b""
        answer_syncs(context, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.syncs.cancel()
    is_first = group.state == EMPTY
    group.transition_to(PREPARING, context.now_ms)
    context.log.debug("group %s: rebalancing after generation %d: %s", group.group_id, group.generation, reason)
    if is_first:
        delay_ms = context.settings.initial_rebalance_delay_ms
        group.member_added = False
        group.first_joins_until = context.now + max(group.rebalance_timeout_ms, delay_ms) / 1000
        context.schedule(group.joins, delay_ms)
        return False
    if group.all_joined:
        return complete(context, group, then)
    context.schedule(group.joins, group.rebalance_timeout_ms)
    return False


def prepare_or_complete(context: GroupContext, group: ClassicGroup, reason: str, then: Then | None = None) -> bool:
    """Start a rebalance, or end the current one if possible; return as `prepare` does."""
    if group.state == PREPARING:
        return complete_if_joined(context, group, then)
    return prepare(context, group, reason, then)


def complete_if_joined(context: GroupContext, group: ClassicGroup, then: Then | None = None) -> bool:
    """End the rebalance if all have joined, unless it is the first, which waits for more members."""
    if group.state == PREPARING and group.previous_state != EMPTY and group.all_joined:
        return complete(context, group, then)
    return False


def handle_join_timeout(context: GroupContext, group: ClassicGroup) -> None:
    """End the rebalance after its timeout; extend it if it is the group's first and members are still joining."""
    if group.state != PREPARING:
        return
    if group.previous_state == EMPTY and group.member_added and context.now < group.first_joins_until:
        group.member_added = False
        delay_s = context.settings.initial_rebalance_delay_ms / 1000
        context.timers.schedule(group.joins, min(context.now + delay_s, group.first_joins_until))
        return
    complete(context, group)


def complete(context: GroupContext, group: ClassicGroup, then: Then | None = None) -> bool:
    """End the rebalance: remove dynamic members that did not join, and start the next generation or empty the group.

    Return as `prepare` does. If no member has joined, wait again.
    """
    group.joins.cancel()
    missing = [m for m in group.members.values() if m.awaiting_join is None and m.instance_id is None]
    for member in missing:
        group.remove(member.member_id)
    if missing:
        names = ", ".join(member.member_id for member in missing)
        context.log.debug("group %s: removed members that did not rejoin: %s", group.group_id, names)
    if group.members and not group.elect_joined_leader():
        context.log.debug("group %s: still waiting, no member has rejoined", group.group_id)
        context.schedule(group.joins, max(group.rebalance_timeout_ms, _MIN_FURTHER_WAIT_MS))
        return False
    group.begin_generation(context.now_ms)
    if group.state == EMPTY:
        context.log.info("group %s: empty at generation %d", group.group_id, group.generation)
        context.append([group_record(group, {})], then or _ignore)
        return True
    members = count_of(len(group.members), "member")
    context.log.debug("group %s: generation %d begins with %s", group.group_id, group.generation, members)
    for member in group.members.values():
        answer_join(context, group, member)
        renew_session(context, member)
        member.is_new = False
        group.pending_sync.add(member.member_id)
    context.schedule(group.syncs, group.rebalance_timeout_ms)
    return False


def handle_sync_timeout(context: GroupContext, group: ClassicGroup) -> None:
    """Remove the members that have not synced in time, and rebalance."""
    if group.state not in (COMPLETING, STABLE) or not group.pending_sync:
        return
    late = sorted(group.pending_sync)
    for member_id in late:
        group.remove(member_id)
    prepare(context, group, f"no SyncGroup from {', '.join(late)}")


def answer_join(context: GroupContext, group: ClassicGroup, member: ClassicGroupMember) -> None:
    """Answer a waiting join with the current generation."""
    to, member.awaiting_join = member.awaiting_join, None
    if to is not None:
        context.answer(to, current_generation(group, member.member_id))


def current_generation(group: ClassicGroup, member_id: str) -> Joined:
    """Return the JoinGroup response for a member; only the leader's lists all members."""
    is_leader = group.leader == member_id
    return Joined(
        member_id=member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=joined_members(group) if is_leader else (),
    )


def joined_members(group: ClassicGroup) -> tuple[JoinedMember, ...]:
    """Return the members with their metadata for the elected protocol."""
    protocol = group.protocol or ""
    return tuple(JoinedMember(m.member_id, m.instance_id, m.protocols[protocol]) for m in group.members.values())


def refuse_join(context: GroupContext, member: ClassicGroupMember, error: ErrorCode, member_id: str) -> None:
    """Answer a waiting join, if there is one, with `error`."""
    to, member.awaiting_join = member.awaiting_join, None
    if to is not None:
        context.answer(to, Joined(error, member_id))


def refuse_sync(context: GroupContext, member: ClassicGroupMember, error: ErrorCode) -> None:
    """Answer a waiting sync, if there is one, with `error`."""
    to, member.awaiting_sync = member.awaiting_sync, None
    if to is not None:
        context.answer(to, Synced(error))


def answer_syncs(context: GroupContext, group: ClassicGroup, error: ErrorCode) -> None:
    """Answer every waiting sync, with its assignment or with `error`, and restart the sessions."""
    for member in group.members.values():
        to, member.awaiting_sync = member.awaiting_sync, None
        if to is None:
            continue
        if error == ErrorCode.NONE:
            context.answer(to, Synced(error, group.protocol_type, group.protocol, member.assignment))
        else:
            context.answer(to, Synced(error))
        renew_session(context, member)


def renew_session(context: GroupContext, member: ClassicGroupMember) -> None:
    """Restart a member's session timeout."""
    context.schedule(member.session, member.session_timeout_ms)


def _ignore(_context: GroupContext, _error: ErrorCode) -> None:
    """Accept either result: if an empty generation is not stored, the previous one is loaded and expires."""
