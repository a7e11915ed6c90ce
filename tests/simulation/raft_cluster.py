"""Several `RaftNode`s on a simulated network and simulated disks; the seed alone decides all faults.

After every event, all that a node stores, sends and applies is compared with Raft's promises (section 5.2 of the paper
and later); `raft_promises.py` names the promises. Requests and responses travel as bytes, and are lost, delayed,
reordered and duplicated; links break in one direction or both; nodes crash and lose unsynced data, pause, shut down
cleanly, and take snapshots. At the end all faults heal, and the quorum has to agree and make progress.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from controller.raft.messages import (
    Disconnected,
    ElectionState,
    LogRead,
    OutboundRequest,
    Ready,
    RequestReceived,
    Response,
    ResponseReceived,
    Role,
    Tick,
    Timing,
)
from controller.raft.raft_node import RaftNode
from controller.raft.voter_history import VoterHistory
from controller.raft.voters import Voter, VoterSet
from protocol.records.control import LeaderChangeMessage
from protocol.records.metadata import ProducerIdsRecord
from protocol.schema import Message
from tests.simulation.raft_disk import RaftDisk
from tests.simulation.raft_promises import Promises
from tests.typed import present

CLUSTER_ID = "simulated"
GRACE_MS = 300
STRIDE_MS = 500
# Shorter than a real quorum's, so that more happens.
TIMING = Timing(
    election_timeout_ms=300,
    fetch_timeout_ms=600,
    election_backoff_max_ms=300,
    request_timeout_ms=600,
    fetch_max_wait_ms=200,
    fetch_max_bytes=400,
    fetch_snapshot_max_bytes=40,
)


class Token(NamedTuple):
    """The sender of a request, and its life at that time."""

    node_id: int
    life: int
    request: OutboundRequest


class Member:
    """One node: its `RaftNode`, its stored state and its pending work."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.disk = RaftDisk()
        self.raft: RaftNode | None = None
        self.life = 0
        self.performing: Ready | None = None
        self.waiting: dict[int, OutboundRequest] = {}
        self.paused_until = 0
        self.clock_ahead_ms = 0


class RaftCluster:
    """The nodes, and the single queue of future events."""

    def __init__(
        self, seed: int, *, voters: int = 3, observers: int = 1, node_class: type[RaftNode] = RaftNode
    ) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.events = 0
        self._node_class = node_class
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._pushed = 0
        self._proposed = 0
        self.voters = VoterSet([Voter(number + 1) for number in range(voters)])
        self.members = {number + 1: Member(number + 1) for number in range(voters + observers)}
        self.promises = Promises(self)
        self.blocked: set[tuple[int, int]] = set()
        self.loss = 0.0
        self.trace: list[str] = []
        for member in self.members.values():
            member.clock_ahead_ms = self.random.randrange(100_000)
            self.start(member)

    # Time.

    def at(self, delay_ms: int, action: Callable[[], None], member: Member | None = None) -> None:
        """Schedule `action`; with `member`, run it only in the member's current life."""
        if member is not None:
            action = self._of_this_life(member, action)
        self._pushed += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._pushed, action))

    def _of_this_life(self, member: Member, action: Callable[[], None]) -> Callable[[], None]:
        life = member.life

        def guarded() -> None:
            if member.life != life:
                return
            if member.paused_until > self.now_ms:
                self.at(member.paused_until - self.now_ms, guarded)
            else:
                action()

        return guarded

    def run(self, until_ms: int) -> None:
        """Run the events due until then."""
        while self._queue and self._queue[0][0] <= until_ms:
            self.now_ms, _, action = heapq.heappop(self._queue)
            self.events += 1
            action()
        self.now_ms = until_ms

    # Nodes.

    def start(self, member: Member) -> None:
        """Start another life from the stored state."""
        member.life += 1
        disk = member.disk
        disk.crash(self.random)
        member.performing = None
        member.waiting = {}
        member.raft = self._node_class(
            member.node_id,
            VoterHistory(self.voters),
            disk.quorum_state or ElectionState(),
            disk.raft_log(),
            cluster_id=CLUSTER_ID,
            timing=TIMING,
            random=Random(self.random.random()),
            now_ms=self.now_ms + member.clock_ahead_ms,
        )
        self.promises.started(member)
        self.step(member, Tick())

    def crash(self, member: Member) -> None:
        """Stop a node at once and break its connections."""
        member.life += 1
        member.raft = None
        for other in self.members.values():
            for request in [request for request in other.waiting.values() if request.to == member.node_id]:
                self.at(self.random.randrange(5), lambda r=request, o=other: self.answered(o, r, None), other)  # type: ignore[misc]  # a lambda with a default has no inferred type
            self.at(GRACE_MS + self.random.randrange(50), lambda o=other: self._found_gone(o, member), other)  # type: ignore[misc]  # a lambda with a default has no inferred type

    def _found_gone(self, other: Member, gone: Member) -> None:
        if gone.raft is None:
            self.step(other, Disconnected(gone.node_id))

    def step(self, member: Member, event: Any) -> None:
        """Pass an event to a running node."""
        if member.raft is not None:
            member.raft.step(event, self.now_ms + member.clock_ahead_ms)
            self._go_on(member)

    def _go_on(self, member: Member) -> None:
        raft = member.raft
        self.promises.saw(member)
        if member.performing is None and (ready := present(raft).ready()) is not None:
            member.performing = ready
            slow = ready.election_state is not None
            self.at(self.random.randrange(1, 8) if slow else 0, lambda: self._store_state(member, ready), member)
        if (due_ms := present(raft).due_ms) is not None:
            delay_ms = max(1, due_ms - self.now_ms - member.clock_ahead_ms)
            self.at(delay_ms, lambda: self._tick(member), member)

    def _tick(self, member: Member) -> None:
        due_ms = present(member.raft).due_ms
        if due_ms is not None and due_ms <= self.now_ms + member.clock_ahead_ms:
            self.step(member, Tick())

    # The driver's part.

    def _store_state(self, member: Member, ready: Ready) -> None:
        disk = member.disk
        if ready.election_state is not None:
            self.promises.stores(member, ready.election_state)
            disk.quorum_state = ready.election_state
        if ready.truncate_to is not None:
            self.promises.truncates(member, ready.truncate_to)
            disk.truncate(ready.truncate_to)
        for part in ready.snapshot_parts:
            disk.write_part(part)
        if ready.reset_to_snapshot is not None:
            disk.reset_to_snapshot(ready.reset_to_snapshot)
            self.promises.loads(member)
            self.promises.resets_to_snapshot(member)
        for entry in ready.entries:
            if isinstance(entry.records[0], LeaderChangeMessage):
                self.promises.leads(member, entry.epoch)
        for entry in ready.entries:
            disk.append_entry(entry, self.now_ms)
        if ready.received is not None:
            disk.append_batches(ready.received.entries[0].base_offset, bytes(ready.received.batches))
        self.promises.wrote(member)
        # Fetch responses do not wait for the sync.
        early = [answer for answer in ready.responses if self._may_leave(answer) and self.random.random() < 0.5]
        for answer in early:
            self._answer(member, answer)
        late = [answer for answer in ready.responses if not any(answer is other for other in early)]
        syncs = bool(ready.entries or ready.received)
        delay_ms = self.random.randrange(1, 15) if syncs else 0
        self.at(delay_ms, lambda: self._finish(member, ready, late), member)

    def _may_leave(self, answer: Response) -> bool:
        return isinstance(answer.read, LogRead)

    def _finish(self, member: Member, ready: Ready, answers: list[Response]) -> None:
        member.disk.sync()
        for request in ready.requests:
            self._send(member, request)
        for answer in answers:
            self._answer(member, answer)
        self.promises.applies(member, ready.high_watermark)
        member.performing = None
        present(member.raft).advance(ready, self.now_ms + member.clock_ahead_ms)
        self._go_on(member)

    # The network.

    def _send(self, member: Member, request: OutboundRequest) -> None:
        member.waiting[id(request)] = request
        self.at(TIMING.request_timeout_ms, lambda: self.answered(member, request, None), member)
        data = over_the_wire(request.message)
        token = Token(member.node_id, member.life, request)
        for _ in range(2 if self.random.random() < 0.02 else 1):
            if not self._lost(member.node_id, request.to):
                self.at(self._delay_ms(), lambda: self._arrive(token, data))

    def _arrive(self, token: Token, message: Message) -> None:
        target = self.members[token.request.to]
        if target.raft is None:
            querying = self.members[token.node_id]
            if querying.life == token.life:
                self.at(1, lambda: self.answered(querying, token.request, None), querying)
        elif target.paused_until > self.now_ms:
            self.at(target.paused_until - self.now_ms, lambda: self._arrive(token, message))
        else:
            self.step(target, RequestReceived(token, message))  # type: ignore[arg-type]  # only this comes here

    def _answer(self, member: Member, answer: Response) -> None:
        token: Any = answer.token
        response = answer.response
        if answer.read is not None:
            member.disk.fill_in(response, answer.read)
        self.promises.answers(member, token.request.message, response)
        querying = self.members[token.node_id]
        data = over_the_wire(response)
        if querying.life == token.life and not self._lost(member.node_id, querying.node_id):
            self.at(self._delay_ms(), lambda: self.answered(querying, token.request, data), querying)

    def answered(self, member: Member, request: OutboundRequest, response: Message | None) -> None:
        """Complete a request, unless it is completed already."""
        if member.waiting.pop(id(request), None) is not None:
            self.step(member, ResponseReceived(request, response))

    def _delay_ms(self) -> int:
        return self.random.randrange(1, 4) if self.random.random() < 0.9 else self.random.randrange(4, 150)

    def _lost(self, source: int, target: int) -> bool:
        return (source, target) in self.blocked or self.random.random() < self.loss

    # Clients and faults.

    def propose(self) -> None:
        """Append an entry on every node that considers itself leader."""
        for member in self.members.values():
            if member.raft is not None and member.raft.role is Role.LEADER and member.paused_until <= self.now_ms:
                self._proposed += 1
                record = ProducerIdsRecord(broker_id=member.node_id, broker_epoch=0, next_producer_id=self._proposed)
                member.raft.propose([record] * self.random.randrange(1, 4))
                self._go_on(member)

    def work(self) -> None:
        """Propose entries at intervals, for ever."""
        self.propose()
        self.at(self.random.randrange(5, 100), self.work)

    def inject_faults(self) -> None:
        """Inject faults, for ever."""
        leader = self.leader()
        victim = leader.node_id if leader and self.random.random() < 0.4 else self.random.choice(list(self.members))
        fault = self.random.choice(FAULTS)
        getattr(self, fault)(self.members[victim])
        self.at(self.random.randrange(20, 600), self.inject_faults)

    def _crashes(self, member: Member) -> None:
        if member.raft is not None:
            self.crash(member)
            self.at(self.random.choice((1, 50, 400, 1500)), lambda: self._comes_back(member))

    def _comes_back(self, member: Member) -> None:
        if member.raft is None:
            self.start(member)

    def _stops(self, member: Member) -> None:
        if member.raft is not None and member.paused_until <= self.now_ms:
            member.raft.resign(self.now_ms + member.clock_ahead_ms)
            self._go_on(member)
            self.at(self.random.randrange(10, 100), lambda: self._crashes(member), member)

    def _pauses(self, member: Member) -> None:
        member.paused_until = self.now_ms + self.random.choice((50, 300, 900, 2000))

    def _loses_links(self, member: Member) -> None:
        for other in self.members:
            for link in ((member.node_id, other), (other, member.node_id)):
                if other != member.node_id and self.random.random() < 0.5:
                    self.blocked.add(link)

    def _is_cut_off(self, member: Member) -> None:
        for other in self.members:
            self.blocked |= {(member.node_id, other), (other, member.node_id)} - {(member.node_id, member.node_id)}

    def _links_heal(self, member: Member) -> None:
        self.blocked = set()
        self.loss = self.random.choice((0.0, 0.0, 0.02, 0.2))

    def _is_reported_gone(self, member: Member) -> None:
        other = self.random.choice(list(self.members.values()))
        if other is not member and other.paused_until <= self.now_ms:
            self.step(other, Disconnected(member.node_id))

    def _takes_snapshot(self, member: Member) -> None:
        if member.raft is not None and member.paused_until <= self.now_ms and member.performing is None:
            snapshot = self.promises.snapshot_of(member)
            if snapshot is not None:
                member.disk.take_snapshot(snapshot, self.promises.state_at(snapshot), trim=self.random.random() < 0.7)
                member.raft.snapshot_taken(snapshot, member.disk.start_offset)

    def heal(self) -> None:
        """End all faults and restart stopped nodes."""
        self._queue = [event for event in self._queue if event[2] != self.inject_faults]
        heapq.heapify(self._queue)
        self.blocked, self.loss = set(), 0.0
        for member in self.members.values():
            member.paused_until = 0
            if member.raft is None or member.raft._replica.stopping:
                if member.raft is not None:
                    self.crash(member)
                self.start(member)

    def must_make_progress(self, within_ms: int = 8_000) -> None:
        """Require that all nodes follow one leader and apply what is proposed now."""
        committed = self.promises.committed_end
        for _ in range(within_ms // STRIDE_MS - 1):
            self.run(until_ms=self.now_ms + STRIDE_MS)
            if not self.promises.missing(committed):
                return
        self.promises.makes_progress(committed)

    def leader(self) -> RaftNode | None:
        """Return the leader of the latest epoch."""
        running = [member.raft for member in self.members.values() if member.raft is not None]
        leaders = [raft for raft in running if raft.role is Role.LEADER]
        return max(leaders, key=lambda raft: raft.epoch, default=None)


FAULTS = (
    "_crashes",
    "_crashes",
    "_stops",
    "_pauses",
    "_loses_links",
    "_is_cut_off",
    "_links_heal",
    "_links_heal",
    "_links_heal",
    "_is_reported_gone",
    "_takes_snapshot",
    "_takes_snapshot",
)
VERSIONS = {52: 2, 53: 1, 54: 1, 1: 18, 59: 1}


def over_the_wire(message: Message) -> Message:
    """Return the message after encoding and decoding."""
    version = VERSIONS[present(type(message).API_KEY)]
    return type(message).decode(message.encode(version), version)


def simulate(seed: int, until_ms: int, *, node_class: type[RaftNode] = RaftNode) -> RaftCluster:
    """Run a cluster whose size and faults the seed decides; AssertionError with the broken promise and its time."""
    size = Random(seed).choice((3, 3, 3, 5))
    cluster = RaftCluster(seed, voters=size, observers=seed % 3, node_class=node_class)
    cluster.at(0, cluster.work)
    cluster.at(500, cluster.inject_faults)
    cluster.run(until_ms=until_ms)
    cluster.heal()
    cluster.must_make_progress()
    return cluster
