"""Groups of clients that join, crash, leave and change subscriptions, on a coordinator that fails and moves.

Clients follow the protocol as real ones do. After any sequence of steps and a quiet period every live client is a
member of one stable generation and has the assignment that its leader computed. No request gets two responses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.coordinator.group.classic_group import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, ClassicGroup
from broker.coordinator.group.context import GroupContext, GroupSettings, Join, Joined, Leaving, Sync, Synced
from broker.coordinator.group.shard import GroupCoordinatorShard
from broker.coordinator.runtime.context import CoordinatorResponse
from broker.coordinator.runtime.timers import Timers
from protocol.errors import ErrorCode
from tests.examples import examples

HEARTBEAT_S = 3.0
RETRY_S = 0.5
SESSION_MS = 10_000
REBALANCE_MS = 15_000


class Silence:
    def info(self, message: str, *args: object) -> None:
        message % args

    debug = info


class Client:
    """A consumer, with the group protocol of its client library."""

    def __init__(self, cluster: Cluster, name: str, instance: str | None, metadata: bytes) -> None:
        self.cluster = cluster
        self.name = name
        self.instance = instance
        self.metadata = metadata
        self.member_id = ""
        self.generation = -1
        self.assignment: bytes | None = None
        self.waits_for: int | None = None
        self.next_at = 0.0
        self.alive = True
        self.rejoins = True

    def act(self) -> None:
        """Send the request that is due, unless one is in flight."""
        if not self.alive or self.waits_for is not None or self.cluster.now < self.next_at:
            return
        if self.rejoins:
            self.join()
        else:
            self.heartbeat()

    def join(self) -> None:
        self.assignment = None
        self.cluster.query(
            self,
            lambda shard, context, to: shard.join(
                context,
                Join(
                    "g", self.member_id, self.instance, self.name, "/h", SESSION_MS, REBALANCE_MS, "consumer",
                    {"range": self.metadata}, "", True, True,
                ),
                to,
            ),
        )  # fmt: skip

    def heartbeat(self) -> None:
        self.next_at = self.cluster.now + HEARTBEAT_S
        error = self.cluster.heartbeat(self)
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.again()
        elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.again(as_new=True)
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self.alive = False

    def again(self, *, as_new: bool = False, after_s: float = 0.0) -> None:
        self.rejoins = True
        self.next_at = self.cluster.now + after_s
        if as_new:
            self.member_id = ""

    def answered(self, result: Joined | Synced) -> None:
        error = result.error
        if error == ErrorCode.NONE:
            self.joined(result) if isinstance(result, Joined) else self.synced(result)
        elif error == ErrorCode.MEMBER_ID_REQUIRED:
            assert isinstance(result, Joined)
            self.member_id = result.member_id
            self.again()
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self.alive = False
        elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.again(as_new=True)
        else:
            assert error in (
                ErrorCode.REBALANCE_IN_PROGRESS,
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ), error
            self.again(after_s=RETRY_S)

    def joined(self, joined: Joined) -> None:
        self.member_id, self.generation = joined.member_id, joined.generation
        plan = {}
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assert joined.member_id in {member.member_id for member in joined.members}
            plan = {one.member_id: f"{joined.generation}:{one.member_id}".encode() for one in joined.members}
        sync = Sync("g", self.member_id, self.instance, self.generation, "consumer", "range", plan)
        self.cluster.query(self, lambda shard, context, to: shard.sync(context, sync, to))

    def synced(self, synced: Synced) -> None:
        self.assignment = synced.assignment
        self.rejoins = False
        self.next_at = self.cluster.now + HEARTBEAT_S


class Cluster:
    """The coordinator shard, its log, clock and clients."""

    def __init__(self) -> None:
        self.now = 0.0
        self.random = Random(1)
        self.settings = GroupSettings(max_size=5)
        self.timers = Timers()
        self.shard = GroupCoordinatorShard()
        self.log: list[Any] = []
        self.held: list[Any] = []
        self.holding = False
        self.failing = False
        self.clients: list[Client] = []
        self.requested = 0
        self.answers: Counter[int] = Counter()

    @property
    def live(self) -> list[Client]:
        return [client for client in self.clients if client.alive]

    def context(self) -> GroupContext:
        return GroupContext(self.now, int(self.now * 1000), self.settings, self.timers, self.random, Silence())

    def query(
        self, client: Client, rule: Callable[[GroupCoordinatorShard, GroupContext, tuple[Client, int]], object]
    ) -> None:
        self.requested += 1
        client.waits_for = self.requested
        context = self.context()
        rule(self.shard, context, (client, self.requested))
        self.perform(context)

    def heartbeat(self, client: Client) -> ErrorCode:
        return self.shard.heartbeat(self.timers, self.now, "g", client.member_id, client.instance, client.generation)

    def perform(self, context: GroupContext) -> None:
        while context.effects:
            effect = context.effects.pop(0)
            if isinstance(effect, CoordinatorResponse):
                self.give(effect)
            elif self.holding:
                self.held.append(effect)
            elif self.failing:
                effect.then(context, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                self.log += effect.records
                effect.then(context, ErrorCode.NONE)
            self.check()

    def give(self, answer: CoordinatorResponse) -> None:
        to: Any = answer.to  # the request of `query`
        client, number = to
        self.answers[number] += 1
        assert self.answers[number] == 1, "answered twice"
        if client.alive and client.waits_for == number:
            client.waits_for = None
            client.answered(answer.result)

    def release(self) -> None:
        self.holding = False
        held, self.held = self.held, []
        for append in held:
            context = self.context()
            if self.failing:
                append.then(context, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                self.log += append.records
                append.then(context, ErrorCode.NONE)
            self.perform(context)

    def move(self) -> None:
        """Move the coordinator to another broker; requests and responses in flight are lost."""
        self.held = []
        context = self.context()
        self.shard.unloaded(context)
        self.timers, self.shard = Timers(), GroupCoordinatorShard()
        for offset, (key, value) in enumerate(self.log):
            self.shard.replay(int(self.now * 1000), offset, key, value)
        self.perform(context)
        for client in self.live:
            if client.waits_for is not None:
                # The connection to the former broker would break.
                client.waits_for = None
                client.again(after_s=RETRY_S)
        context = self.context()
        self.shard.loaded(context)
        self.perform(context)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            for client in self.clients:
                client.act()
            while (timer := self.timers.pop_due(self.now)) is not None:
                context = self.context()
                self.shard.fire(context, timer.event)
                self.perform(context)
            self.now = min(self.now + 0.25, until)

    def check(self) -> None:
        for group in self.shard.groups.values():
            check_counters(group)


def check_counters(group: ClassicGroup) -> None:
    """The counters of a group agree with each other and with its state."""
    members = group.members
    assert set(group.pending).isdisjoint(members)
    assert group.pending_sync <= set(members)
    assert {m.instance_id: m.member_id for m in members.values() if m.instance_id} == group.static_members
    assert (group.leader in members) if members else (group.leader is None)
    assert group.supported == Counter(name for member in members.values() for name in member.protocols)
    if group.state == EMPTY:
        assert not members
    if group.state in (COMPLETING, STABLE) and members:
        assert group.protocol is not None
    if group.state != COMPLETING:
        assert all(member.awaiting_sync is None for member in members.values())
    assert group.state in (EMPTY, PREPARING, COMPLETING, STABLE, DEAD)


def act(cluster: Cluster, what: str, which: int) -> None:
    live = cluster.live
    client = live[which % len(live)] if live else None
    if what == "start" and len(live) < 5:
        cluster.clients.append(Client(cluster, f"c{len(cluster.clients)}", None, b"m"))
    elif what == "start static" and len(live) < 5:
        cluster.clients.append(Client(cluster, f"c{len(cluster.clients)}", "AB"[which % 2], b"m"))
    elif what == "crash" and client is not None:
        client.alive = False
    elif what == "leave" and client is not None and client.member_id:
        client.alive = False
        context = cluster.context()
        leaving = [Leaving(client.member_id, client.instance, "")]
        cluster.requested += 1
        cluster.shard.leave(context, "g", leaving, (client, cluster.requested))
        cluster.perform(context)
    elif what == "resubscribe" and client is not None and client.waits_for is None:
        client.metadata = bytes([which])
        client.again()
    elif what == "hold":
        cluster.holding = True
    elif what == "release":
        cluster.release()
    elif what == "fail":
        cluster.failing = True
    elif what == "mend":
        cluster.failing = False
    elif what == "move":
        cluster.move()


ACTIONS = ["start", "start static", "crash", "leave", "resubscribe", "hold", "release", "fail", "mend", "move"]
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(0, 9), st.sampled_from([0.0, 0.25, 1.0, 4.0, 20.0])), max_size=40
)


@settings(max_examples=examples(150), deadline=None)
@given(STEPS)
def test_all_live_clients_reach_one_stable_generation(steps: list[tuple[str, int, float]]) -> None:
    cluster = Cluster()
    for what, which, seconds in steps:
        act(cluster, what, which)
        cluster.check()
        cluster.pass_time(seconds)
    cluster.failing = False
    cluster.release()
    cluster.pass_time(120)
    # Two live processes with one instance id: the later one fenced the earlier.
    live = cluster.live
    group = cluster.shard.groups.get("g")
    assert {client.member_id for client in live} == set(group.members if group else ())
    if not live:
        return
    assert group is not None
    assert group.state == STABLE
    for client in live:
        assert client.generation == group.generation
        assert client.assignment == group.members[client.member_id].assignment
        assert client.assignment
