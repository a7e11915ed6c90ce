"""Between two generations: gathering the members' joins, and going on with those who came.

A rebalance ends when every member has joined, or when the rebalance timeout (the longest that a member
grants) is over: then dynamic members that have not joined are removed, while static ones stay until their
sessions expire. A group's first rebalance waits `group.initial.rebalance.delay.ms` instead, so that
consumers that start together share one generation, and again as long as new members keep coming, within the
rebalance timeout (KIP-134). After that every member must sync within the rebalance timeout too, or is
removed.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.coordinator.group.classic_group import COMPLETING, EMPTY, PREPARING, STABLE, Group, Member
from broker.coordinator.group.context import Joined, JoinedMember, Synced, Turn
from broker.coordinator.group.records import group_record
from protocol.errors import ErrorCode
from protocol.plural import count_of

Then = Callable[[Turn, ErrorCode], None]

_LOOK_AGAIN_MS = 1_000
"""How long a rebalance that nobody has joined waits on at least: a member may grant it no time at all."""


def prepare(turn: Turn, group: Group, reason: str, then: Then | None = None) -> bool:
    """Begin a rebalance, and end it at once if nobody is to be waited for.

    `then` is called once the group is stored, if it has become empty, and the result says whether that is
    to come.
    """
    if group.state == COMPLETING:
        for member in group.members.values():
            member.assignment = b""
        answer_syncs(turn, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.syncs.cancel()
    is_first = group.state == EMPTY
    group.move_to(PREPARING, turn.now_ms)
    turn.log.debug("group %s: rebalancing after generation %d: %s", group.group_id, group.generation, reason)
    if is_first:
        delay_ms = turn.settings.initial_rebalance_delay_ms
        group.member_added = False
        group.first_joins_until = turn.now + max(group.rebalance_timeout_ms, delay_ms) / 1000
        turn.schedule(group.joins, delay_ms)
        return False
    if group.all_joined:
        return complete(turn, group, then)
    turn.schedule(group.joins, group.rebalance_timeout_ms)
    return False


def prepare_or_complete(turn: Turn, group: Group, reason: str, then: Then | None = None) -> bool:
    """Begin a rebalance, or see whether the one under way can end; the result is that of `prepare`."""
    if group.state == PREPARING:
        return complete_if_joined(turn, group, then)
    return prepare(turn, group, reason, then)


def complete_if_joined(turn: Turn, group: Group, then: Then | None = None) -> bool:
    """End the rebalance if all have joined, unless it is the first, which waits for more."""
    if group.state == PREPARING and group.previous_state != EMPTY and group.all_joined:
        return complete(turn, group, then)
    return False


def joins_due(turn: Turn, group: Group) -> None:
    """Go on after the time to join: once more if it is the group's first rebalance and still growing."""
    if group.state != PREPARING:
        return
    if group.previous_state == EMPTY and group.member_added and turn.now < group.first_joins_until:
        group.member_added = False
        delay_s = turn.settings.initial_rebalance_delay_ms / 1000
        turn.timers.schedule(group.joins, min(turn.now + delay_s, group.first_joins_until))
        return
    complete(turn, group)


def complete(turn: Turn, group: Group, then: Then | None = None) -> bool:
    """End the rebalance: remove who did not come, and begin the next generation or leave the group empty."""
    group.joins.cancel()
    missing = [m for m in group.members.values() if m.awaiting_join is None and m.instance_id is None]
    for member in missing:
        group.remove(member.member_id)
    if missing:
        names = ", ".join(member.member_id for member in missing)
        turn.log.debug("group %s: removed who did not rejoin: %s", group.group_id, names)
    if group.members and not group.elect_joined_leader():
        turn.log.debug("group %s: waits on, nobody has rejoined", group.group_id)
        turn.schedule(group.joins, max(group.rebalance_timeout_ms, _LOOK_AGAIN_MS))
        return False
    group.begin_generation(turn.now_ms)
    if group.state == EMPTY:
        turn.log.info("group %s: empty at generation %d", group.group_id, group.generation)
        turn.append([group_record(group, {})], then or _ignore)
        return True
    members = count_of(len(group.members), "member")
    turn.log.debug("group %s: generation %d begins with %s", group.group_id, group.generation, members)
    for member in group.members.values():
        answer_join(turn, group, member)
        renew_session(turn, member)
        member.is_new = False
        group.pending_sync.add(member.member_id)
    turn.schedule(group.syncs, group.rebalance_timeout_ms)
    return False


def syncs_due(turn: Turn, group: Group) -> None:
    """Rebalance without the members that were told of their generation and did not ask for their assignment."""
    if group.state not in (COMPLETING, STABLE) or not group.pending_sync:
        return
    late = sorted(group.pending_sync)
    for member_id in late:
        group.remove(member_id)
    prepare(turn, group, f"no sync came from {', '.join(late)}")


def answer_join(turn: Turn, group: Group, member: Member) -> None:
    """Tell a waiting member its generation; the leader hears of all members."""
    to, member.awaiting_join = member.awaiting_join, None
    if to is not None:
        turn.answer(to, current_generation(group, member.member_id))


def current_generation(group: Group, member_id: str) -> Joined:
    """Describe the current generation to a member."""
    is_leader = group.leader == member_id
    return Joined(
        member_id=member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=joined_members(group) if is_leader else (),
    )


def joined_members(group: Group) -> tuple[JoinedMember, ...]:
    """List the members with their metadata for the elected protocol."""
    protocol = group.protocol or ""
    return tuple(JoinedMember(m.member_id, m.instance_id, m.protocols[protocol]) for m in group.members.values())


def refuse_join(turn: Turn, member: Member, error: ErrorCode, member_id: str) -> None:
    """Answer a waiting join, if there is one, with `error`."""
    to, member.awaiting_join = member.awaiting_join, None
    if to is not None:
        turn.answer(to, Joined(error, member_id))


def refuse_sync(turn: Turn, member: Member, error: ErrorCode) -> None:
    """Answer a waiting sync, if there is one, with `error`."""
    to, member.awaiting_sync = member.awaiting_sync, None
    if to is not None:
        turn.answer(to, Synced(error))


def answer_syncs(turn: Turn, group: Group, error: ErrorCode) -> None:
    """Answer every waiting sync, with its assignment or with `error`, and expect heartbeats again."""
    for member in group.members.values():
        to, member.awaiting_sync = member.awaiting_sync, None
        if to is None:
            continue
        if error == ErrorCode.NONE:
            turn.answer(to, Synced(error, group.protocol_type, group.protocol, member.assignment))
        else:
            turn.answer(to, Synced(error))
        renew_session(turn, member)


def renew_session(turn: Turn, member: Member) -> None:
    """Grant a member another session timeout."""
    turn.schedule(member.session, member.session_timeout_ms)


def _ignore(_turn: Turn, _error: ErrorCode) -> None:
    """Accept either outcome: if an empty generation is not stored, the one before it comes back and times out."""
