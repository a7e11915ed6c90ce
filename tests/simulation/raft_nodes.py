"""Some `RaftNode`s whose messages arrive at once unless their link is cut: for tests of one scenario.

Time passes only in `wait`. The tests compare a transcript with one line per event: votes, leaders, truncations, resets
and commits; a Fetch appears only if it has such news. Of two nodes with a random timeout, the one with the smaller id
is first.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from controller.raft.log import Entry, SnapshotId
from controller.raft.messages import (
    Disconnected,
    ElectionState,
    OutboundRequest,
    Ready,
    RequestReceived,
    ResponseReceived,
    Role,
    Tick,
    Timing,
)
from controller.raft.raft_node import RaftNode
from controller.raft.voter_history import VoterHistory
from controller.raft.voters import Voter, VoterSet
from protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from protocol.messages.vote import VoteRequest
from protocol.records.metadata import NoOpRecord
from tests.simulation.raft_disk import RaftDisk

TIMING = Timing()


class FixedRandom:
    """A node's random source: constant, and larger for larger ids."""

    def __init__(self, node_id: int) -> None:
        self._fraction = node_id / 10

    def random(self) -> float:
        return self._fraction


class Nodes:
    """The nodes, their disks and their links."""

    def __init__(self, voters: list[int], observers: tuple[int, ...] | list[int] = ()) -> None:
        self.voters = VoterSet([Voter(voter_id) for voter_id in voters])
        self.disks = {node_id: RaftDisk() for node_id in (*voters, *observers)}
        self.nodes: dict[int, RaftNode] = {}
        self.cut: set[tuple[int, int]] = set()
        self.now_ms = 0
        self.reported: list[str] = []
        self.applied = dict.fromkeys(self.disks, 0)
        self._roles: dict[int, tuple[Role, int]] = {}
        self._due: list[tuple[int, int, OutboundRequest]] = []
        self._arriving: deque[Any] = deque()

    def log(self, node_id: int, *epochs: int) -> None:
        """Give a node a log with one record of each of these epochs."""
        for offset, epoch in enumerate(epochs):
            self.disks[node_id].append_entry(Entry(offset, epoch, (NoOpRecord(),)), epoch)
        self.disks[node_id].sync()
        self.disks[node_id].quorum_state = ElectionState(max(epochs))

    def start(self, *node_ids: int) -> None:
        """Start nodes with the contents of their disks."""
        for node_id in node_ids or self.disks:
            disk = self.disks[node_id]
            self.nodes[node_id] = RaftNode(
                node_id,
                VoterHistory(self.voters),
                disk.quorum_state or ElectionState(),
                disk.raft_log(),
                timing=TIMING,
                random=FixedRandom(node_id),  # type: ignore[arg-type]
                now_ms=self.now_ms,
            )
            self.applied[node_id] = disk.start_offset
            self._roles[node_id] = (Role.UNATTACHED, -1)
        for node_id in node_ids or self.disks:
            self.step(node_id, Tick())

    def crash(self, node_id: int) -> None:
        """Stop a node; nodes that wait for its response are notified at once."""
        del self.nodes[node_id]
        ended = [(source, request) for _, source, request in self._due if request.to == node_id]
        self._due = [due for due in self._due if due[2].to != node_id and due[1] != node_id]
        for source, request in ended:
            self.step(source, ResponseReceived(request, None))

    def lead(self, node_id: int) -> None:
        """Elect a node."""
        self.nodes[node_id].campaign(self.now_ms)
        self._settle(node_id)

    def propose(self, node_id: int, records: int = 1) -> None:
        """Append records on a leader."""
        self.nodes[node_id].propose([NoOpRecord()] * records)
        self._settle(node_id)

    def resign(self, node_id: int) -> None:
        """Stop a node in order."""
        self.nodes[node_id].resign(self.now_ms)
        self._settle(node_id)

    def disconnected(self, node_id: int, other: int) -> None:
        """Report a lost connection to a node."""
        self.step(node_id, Disconnected(other))

    def snapshot(self, node_id: int) -> None:
        """Take a snapshot of what a node has applied, and drop the log below it."""
        disk, applied = self.disks[node_id], self.applied[node_id]
        epoch = next(batch.epoch for batch in disk.batches if batch.next_offset == applied)
        disk.take_snapshot(SnapshotId(applied, epoch), b"*" * 100, trim=True)
        self.nodes[node_id].snapshot_taken(SnapshotId(applied, epoch), applied)

    def wait(self, ms: int) -> None:
        """Advance time."""
        until_ms = self.now_ms + ms
        while (due_ms := self._next_due_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            lost = [(source, request) for at_ms, source, request in self._due if at_ms <= self.now_ms]
            self._due = [due for due in self._due if due[0] > self.now_ms]
            for source, request in lost:
                self.step(source, ResponseReceived(request, None))
            for node_id in sorted(self.nodes):
                due = self.nodes[node_id].due_ms if node_id in self.nodes else None
                if due is not None and due <= self.now_ms:
                    self.step(node_id, Tick())
        self.now_ms = until_ms

    def _next_due_ms(self) -> int | None:
        ticks = [node.due_ms for node in self.nodes.values()]
        return min((at for at in [*ticks, *(due[0] for due in self._due)] if at is not None), default=None)

    def step(self, node_id: int, event: Any) -> None:
        """Pass an event to a node, and perform the effects."""
        if node_id in self.nodes:
            self.nodes[node_id].step(event, self.now_ms)
            self._settle(node_id)

    def _settle(self, node_id: int) -> None:
        outermost = not self._arriving
        self._arriving.append(node_id)
        if not outermost:
            return
        while self._arriving:
            node = self._arriving[0]
            self._perform(node)
            self._arriving.popleft()

    def _perform(self, node_id: int) -> None:
        node = self.nodes.get(node_id)
        while node is not None and (ready := node.ready()) is not None:
            self._log_role(node_id)
            self._store(node_id, ready)
            for request in ready.requests:
                self._send(node_id, request)
            for answer in ready.responses:
                if answer.read is not None:
                    self.disks[node_id].fill_in(answer.response, answer.read)
                token: Any = answer.token  # passed in by `_send`
                source, request = token
                self._log_vote(node_id, request, answer.response)
                if (node_id, source) not in self.cut:
                    self._end(source, request, answer.response)
            if ready.high_watermark > self.applied[node_id]:
                self.applied[node_id] = ready.high_watermark
                self.reported.append(f"{node_id}: committed below {ready.high_watermark}")
            self.reported += [f"{node_id}: warning: {warning}" for warning in ready.warnings]
            node.advance(ready)
            self._log_role(node_id)

    def _store(self, node_id: int, ready: Ready) -> None:
        disk = self.disks[node_id]
        disk.quorum_state = ready.election_state or disk.quorum_state
        if ready.truncate_to is not None:
            self.reported.append(f"{node_id}: cuts its log from {disk.end_offset} to {ready.truncate_to}")
            disk.truncate(ready.truncate_to)
        for part in ready.snapshot_parts:
            disk.write_part(part)
        if ready.reset_to_snapshot is not None:
            disk.reset_to_snapshot(ready.reset_to_snapshot)
            self.reported.append(f"{node_id}: begins behind the snapshot {ready.reset_to_snapshot.file_name}")
        for entry in ready.entries:
            disk.append_entry(entry, self.now_ms)
        if ready.received is not None:
            disk.append_batches(ready.received.entries[0].base_offset, bytes(ready.received.batches))
        disk.sync()

    def _log_role(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if self._roles[node_id] != (node.role, node.epoch):
            self._roles[node_id] = (node.role, node.epoch)
            of = f" of {node.leader_id}" if node.role in (Role.FOLLOWER, Role.OBSERVER) else ""
            self.reported.append(f"{node_id}: {node.role.value}{of} in epoch {node.epoch}")

    def _log_vote(self, node_id: int, request: OutboundRequest, response: Any) -> None:
        if isinstance(request.message, VoteRequest) and response.topics:
            requested, answered = request.message.topics[0].partitions[0], response.topics[0].partitions[0]
            says = ("would vote" if requested.pre_vote else "votes") if answered.vote_granted else "refuses"
            self.reported.append(
                f"{node_id}: {says} {'to vote ' if says == 'refuses' else ''}for {requested.replica_id}"
            )

    def _send(self, node_id: int, request: OutboundRequest) -> None:
        if isinstance(request.message, BeginQuorumEpochRequest | EndQuorumEpochRequest):
            verb = "leads" if isinstance(request.message, BeginQuorumEpochRequest) else "leads no more"
            self.reported.append(f"{node_id}: reports to {request.to} that it {verb}")
        self._due.append((self.now_ms + TIMING.request_timeout_ms, node_id, request))
        if request.to not in self.nodes:
            self._end(node_id, request, None)
        elif (node_id, request.to) not in self.cut:
            self.nodes[request.to].step(RequestReceived((node_id, request), request.message), self.now_ms)
            self._arriving.append(request.to)

    def _end(self, node_id: int, request: OutboundRequest, response: Any) -> None:
        waiting = [due for due in self._due if due[2] is request]
        self._due = [due for due in self._due if due[2] is not request]
        if waiting and node_id in self.nodes:
            self.nodes[node_id].step(ResponseReceived(request, response), self.now_ms)
            self._arriving.append(node_id)

    def heal(self) -> None:
        """Restore every link."""
        self.cut = set()

    def state(self, node_id: int) -> str:
        """Return a node's role and log."""
        if node_id not in self.nodes:
            return f"{node_id}: gone"
        node, disk = self.nodes[node_id], self.disks[node_id]
        of = f" of {node.leader_id}" if node.role in (Role.FOLLOWER, Role.OBSERVER) else ""
        begins = f"{disk.oldest.epoch}@{disk.start_offset} | " if disk.oldest else ""
        log = " ".join(f"{batch.base_offset}:{batch.epoch}" for batch in disk.batches)
        committed = f"committed {node.high_watermark}"
        return f"{node_id}: {node.role.value}{of} in epoch {node.epoch}, {committed}, log {begins}{log}".rstrip()
