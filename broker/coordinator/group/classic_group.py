"""One classic group: its members, generation and state (KIP-62, KIP-345, KIP-394; Kafka: `ClassicGroup`).

Theory of operation. Each generation of members gets one assignment. Members *join* with the protocols (assignors) that
they support. When all have joined, or the rebalance timeout has passed, a new generation begins: the leader receives
the list of members and computes the assignment, every member *syncs*, and the leader's sync carries the assignment,
which all get in response once it is stored. From then on members only send heartbeats. A member that joins, leaves,
misses its session timeout or changes its subscription starts the next rebalance.

    state                 what it waits for                 next state, when
    Empty                 a member                          PreparingRebalance, a member joined
    PreparingRebalance    every member's join               CompletingRebalance, all joined or timeout
                                                            Empty, no member is left
    CompletingRebalance   the leader's assignment           Stable, the assignment is stored
                                                            PreparingRebalance, membership or metadata changed,
                                                              a sync is overdue, or storing failed
    Stable                nothing                           PreparingRebalance, membership or metadata changed
    Dead                  nothing                           none

Any state becomes Dead when the group moves to another broker.

A member that joins with version 4 or later of JoinGroup is first *pending*: it gets a member id and has to join again
with it. A *static* member has an instance id that outlives its member ids: the newest member id of an instance fences
the older ones, and takes over their assignment.

Members of a loaded group support only the protocol that was stored. `join`, `rebalance`, `sync` and `leave` decide
state changes; this module keeps the data consistent.
"""

from typing import NamedTuple

from broker.coordinator.runtime.timers import Timer
from protocol.errors import ErrorCode, InvariantError

EMPTY = "Empty"
PREPARING = "PreparingRebalance"
COMPLETING = "CompletingRebalance"
STABLE = "Stable"
DEAD = "Dead"

_PREVIOUS_STATES = {
    EMPTY: {PREPARING},
    PREPARING: {EMPTY, COMPLETING, STABLE},
    COMPLETING: {PREPARING},
    STABLE: {COMPLETING},
    DEAD: {EMPTY, PREPARING, COMPLETING, STABLE, DEAD},
}

CONSUMER = "consumer"
"""The protocol type of Kafka's consumers, whose subscriptions the coordinator parses."""


class SessionTimeout(NamedTuple):
    """A member, or a pending member, has sent nothing for its session timeout."""

    group_id: str
    member_id: str


class JoinTimeout(NamedTuple):
    """A rebalance has waited long enough for joins."""

    group_id: str


class SyncTimeout(NamedTuple):
    """A new generation has waited for the members' syncs for the rebalance timeout."""

    group_id: str


class ClassicGroupMember:
    """One member of a group. `protocols` is in the member's order of preference."""

    __slots__ = (
        "_awaiting_join", "assignment", "awaiting_sync", "client_host", "client_id", "instance_id", "is_new", "joining",
        "member_id", "protocol_type", "protocols", "rebalance_timeout_ms", "session", "session_timeout_ms",
    )  # fmt: skip

    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: dict[str, bytes],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.joining: set[str] = set()
        """The ids of members whose join is waiting; shared with the group once the member is added."""
        self._awaiting_join: object | None = None
        self.awaiting_sync: object | None = None
        self.is_new = False
        self.session = Timer(SessionTimeout(group_id, member_id))

    @property
    def awaiting_join(self) -> object | None:
        """Return where to answer the member's JoinGroup, None if none is waiting."""
        return self._awaiting_join

    @awaiting_join.setter
    def awaiting_join(self, to: object | None) -> None:
        self._awaiting_join = to
        if to is None:
            self.joining.discard(self.member_id)
        else:
            self.joining.add(self.member_id)

    @property
    def keeps_session(self) -> bool:
        """Whether the session cannot expire: a join or sync of the member is waiting, and it knows its member id."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def supports_exactly(self, protocols: dict[str, bytes]) -> bool:
        """Return whether the member's protocols equal `protocols`, in the same order of preference."""
        return list(self.protocols.items()) == list(protocols.items())


class ClassicGroup:
    """A classic group. Without a protocol type it is *simple*: it has offsets, committed without group membership."""

    __slots__ = (
        "first_joins_until", "generation", "group_id", "joining", "joins", "leader", "member_added", "members",
        "pending", "pending_sync", "previous_state", "protocol", "protocol_type", "state", "state_timestamp_ms",
        "static_members", "subscribed_topics", "supported", "syncs",
    )  # fmt: skip

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = EMPTY
        self.previous_state = DEAD
        self.state_timestamp_ms: int | None = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.joining: set[str] = set()
        self.static_members: dict[str, str] = {}
        self.pending: dict[str, Timer] = {}
        self.pending_sync: set[str] = set()
        self.member_added = False
        self.first_joins_until = 0.0
        self.supported: dict[str, int] = {}
        self.subscribed_topics: frozenset[str] | None = None
        self.joins = Timer(JoinTimeout(group_id))
        self.syncs = Timer(SyncTimeout(group_id))

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of the members, in ms."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def joined(self) -> int:
        """The number of members whose join is waiting."""
        return len(self.joining)

    @property
    def all_joined(self) -> bool:
        """Whether all members have joined, and no member is pending."""
        return not self.pending and len(self.joining) == len(self.members)

    def transition_to(self, state: str, now_ms: int) -> None:
        """Change state as in the table above; InvariantError for any other transition."""
        if self.state not in _PREVIOUS_STATES[state]:
            raise InvariantError(f"group {self.group_id}: invalid transition from {self.state} to {state}")
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return NONE for a current member, else UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def accepts_protocols(self, protocol_type: str, protocols: dict[str, bytes]) -> bool:
        """Return whether a member with these protocols can join this group."""
        if self.state == EMPTY:
            return bool(protocol_type) and bool(protocols)
        member_count = len(self.members)
        return protocol_type == self.protocol_type and any(self.supported.get(p, 0) == member_count for p in protocols)

    def add_pending(self, member_id: str) -> Timer:
        """Add a pending member; return its session timer."""
        timer = self.pending[member_id] = Timer(SessionTimeout(self.group_id, member_id))
        return timer

    def add(self, member: ClassicGroupMember) -> None:
        """Add `member`; the first becomes the leader and sets the group's protocol type."""
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self._enter(member)
        self._count_protocols(member, 1)
        pending = self.pending.pop(member.member_id, None)
        if pending is not None:
            pending.cancel()

    def remove(self, member_id: str) -> None:
        """Remove a member or pending member; elect another leader if it was the leader."""
        pending = self.pending.pop(member_id, None)
        if pending is not None:
            pending.cancel()
        self.pending_sync.discard(member_id)
        member = self.members.get(member_id)
        if member is None:
            return
        self._exit(member)
        member.session.cancel()
        self._count_protocols(member, -1)
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def update(
        self, member: ClassicGroupMember, protocols: dict[str, bytes], rebalance_ms: int, session_ms: int
    ) -> None:
        """Set a member's protocols and timeouts."""
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms

    def replace_static(self, old: ClassicGroupMember, member_id: str) -> ClassicGroupMember:
        """Replace `old`, the current member of an instance, by a member with the instance's new member id."""
        if old.instance_id is None:
            raise InvariantError(f"member {old.member_id} of group {self.group_id} is not static")
        new = ClassicGroupMember(
            self.group_id,
            member_id,
            instance_id=old.instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocol_type=old.protocol_type,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self._exit(old)
        old.session.cancel()
        self.pending_sync.discard(old.member_id)
        self._enter(new)
        self.static_members[old.instance_id] = member_id
        if self.leader == old.member_id:
            self.leader = member_id
        return new

    def restore_static(self, new: ClassicGroupMember, old: ClassicGroupMember) -> None:
        """Undo `replace_static`."""
        if old.instance_id is None:
            raise InvariantError(f"member {old.member_id} of group {self.group_id} is not static")
        self._count_protocols(new, -1)
        self._exit(new)
        new.session.cancel()
        self._count_protocols(old, 1)
        self._enter(old)
        self.static_members[old.instance_id] = old.member_id
        if self.leader == new.member_id:
            self.leader = old.member_id

    def _enter(self, member: ClassicGroupMember) -> None:
        self.members[member.member_id] = member
        member.joining = self.joining
        member.awaiting_join = member.awaiting_join

    def _exit(self, member: ClassicGroupMember) -> None:
        del self.members[member.member_id]
        self.joining.discard(member.member_id)
        member.joining = set()

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined, else elect the first member that has; False if there is none."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader = member.member_id
                return True
        return False

    def begin_generation(self, now_ms: int) -> None:
        """Start a new generation: elect the protocol, and await a sync from each member; Empty without members."""
        self.generation += 1
        self.pending_sync.clear()
        self.protocol = self.elect_protocol() if self.members else None
        self.subscribed_topics = self.read_subscriptions()
        self.transition_to(COMPLETING if self.members else EMPTY, now_ms)

    def elect_protocol(self) -> str:
        """Return the protocol with the most votes of those all members support; at a tie, the first voted for."""
        member_count = len(self.members)
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next((name for name in member.protocols if self.supported[name] == member_count), None)
            if choice is None:
                raise InvariantError(f"the members of group {self.group_id} have no protocol in common")
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def subscribes_to(self, topic: str) -> bool:
        """Return whether a member may consume `topic`; True if a consumer's subscription is unreadable."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed_topics

    def read_subscriptions(self) -> frozenset[str] | None:
        """Return the members' subscribed topics; None if this is no consumer group or one is unreadable."""
        if self.protocol_type != CONSUMER:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscribed = read_subscription(member.protocols.get(self.protocol, b""))
            if subscribed is None:
                return None
            topics.update(subscribed)
        return frozenset(topics)

    def _count_protocols(self, member: ClassicGroupMember, change: int) -> None:
        for name in member.protocols:
            count = self.supported.get(name, 0) + change
            if count:
                self.supported[name] = count
            else:
                del self.supported[name]


def read_subscription(metadata: bytes) -> list[str] | None:
    """Return the topics at the start of a ConsumerProtocolSubscription, which is the same in all versions.

    Format: version (int16), count (int32), then each topic name after its length (int16). None if it is not that.
    """
    at = 6
    topics = []
    if len(metadata) < at:
        return None
    count = int.from_bytes(metadata[2:6], "big", signed=True)
    for _ in range(count):
        size = int.from_bytes(metadata[at : at + 2], "big", signed=True)
        name = metadata[at + 2 : at + 2 + size]
        if size <= 0 or len(name) < size:
            return None
        try:
            topics.append(name.decode())
        except UnicodeDecodeError:
            return None
        at += 2 + size
    return topics
