"""Raft's promises (figure 3 of the paper), checked against everything that simulated nodes do.

`Promise` lists them. Epochs and high watermarks never decrease in a node's life; epochs do not decrease across restarts
either.
"""

from __future__ import annotations

import hashlib
from enum import Enum
from typing import Any

from controller.raft.log import SnapshotId
from controller.raft.messages import NO_NODE, ElectionState, Role
from protocol.messages.vote import VoteRequest, VoteResponse
from simulation.violation import InvariantBroken

_FILLING = b"." * 100
_BEHIND_A_SNAPSHOT = -2


class Promise(Enum):
    """Raft's promises; the values appear in `docs/SIMULATION.md`."""

    ELECTION_SAFETY = "at most one leader an epoch; a voter votes once an epoch, and stores it before it answers"
    LEADER_APPEND_ONLY = "a leader truncates nothing"
    LOG_MATCHING = "batches of the same offset and epoch are the same, and so is the batch before each"
    LEADER_COMPLETENESS = "a new leader has every committed batch"
    STATE_MACHINE_SAFETY = "every node applies the same batches in the same order, each once"
    OWN_EPOCH = "a leader commits only up to an entry of its own epoch"
    DURABILITY = "what a leader treats as committed is synced by a majority"
    MONOTONE = "epochs and high watermarks never go back"
    EPOCHS_ARE_NEW = "a candidate stands in an epoch that it has not been in before"
    TRUNCATIONS_DROP = "a follower that truncates drops something"
    SNAPSHOT_EPOCHS = "a log that begins behind a snapshot has the epoch of that snapshot, and no other"
    ELECTS = "once all faults have healed, a leader is elected"
    ALL_FOLLOW = "once all faults have healed, all nodes follow the one leader"
    ALL_APPLY = "once all faults have healed, all nodes apply new batches"
    SELF_CHECKS = "no node finds that its own state is impossible"


class Promises:
    """State of all nodes together that was seen so far."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.leaders: dict[int, int] = {}
        self.committed_end = 0
        # All applied batches of all nodes: the end offset of each -> the resulting state, and its epoch.
        self.states: dict[int, tuple[str, int]] = {0: ("", 0)}
        self._batches: dict[tuple[int, int], tuple[bytes, tuple[int, int] | None]] = {}
        self._applied: dict[int, int] = {}
        self._votes: dict[tuple[int, int], int] = {}
        self._high_watermarks: dict[int, int] = {}
        # The role and the epoch of each node at the last check.
        self._roles: dict[int, tuple[Role, int]] = {}

    def require(self, promise: Promise, kept: bool, what: str) -> None:
        """Raise `InvariantBroken` of `promise` unless it is kept."""
        if not kept:
            raise InvariantBroken(promise, f"{what} (at {self._cluster.now_ms} ms, event {self._cluster.events})")

    def started(self, member: Any) -> None:
        snapshot = member.disk.snapshot
        self._applied[member.node_id] = snapshot.end_offset if snapshot else 0
        self._high_watermarks[member.node_id] = 0
        self._roles[member.node_id] = (Role.UNATTACHED, NO_NODE)

    def saw(self, member: Any) -> None:
        """Check a node after an event."""
        raft, node_id = member.raft, member.node_id
        role, epoch = raft.role, raft.epoch
        stored = member.disk.quorum_state
        self.require(Promise.MONOTONE, stored is None or epoch >= stored.epoch, f"node {node_id} went back in epoch")
        before = self._high_watermarks[node_id]
        self.require(Promise.MONOTONE, raft.high_watermark >= before, f"the high watermark of node {node_id} went back")
        self._high_watermarks[node_id] = raft.high_watermark
        last_role, last_epoch = self._roles[node_id]
        led = last_role is Role.LEADER and last_epoch == epoch
        self._roles[node_id] = (role, epoch)
        if role is Role.LEADER:
            leader = self.leaders.setdefault(epoch, node_id)
            self.require(
                Promise.ELECTION_SAFETY, leader == node_id, f"nodes {leader} and {node_id} both lead epoch {epoch}"
            )
        elif role is Role.CANDIDATE and last_role is not Role.CANDIDATE:
            self.require(
                Promise.EPOCHS_ARE_NEW, epoch > last_epoch, f"node {node_id} stands in epoch {epoch} as {last_role}"
            )
        if raft.high_watermark > self.committed_end:
            # Also for a node that led when it committed this, and resigned at once.
            self._commits(member, raft.high_watermark, own_epoch=epoch if led else None)

    def leads(self, member: Any, leader_epoch: int) -> None:
        """Check a new leader's log at the start of its epoch; if it was slow, there may be later leaders by now."""
        disk = member.disk
        has = {batch.next_offset: batch.epoch for batch in disk.batches}
        for end_offset, (_, epoch) in self.states.items():
            if disk.start_offset < end_offset <= self.committed_end and epoch < leader_epoch:
                self.require(
                    Promise.LEADER_COMPLETENESS,
                    has.get(end_offset) == epoch,
                    f"the leader {member.node_id} lacks what ends at {end_offset}",
                )

    def _commits(self, member: Any, end_offset: int, own_epoch: int | None) -> None:
        self.committed_end = end_offset
        synced = {voter_id: self._synced_epoch(voter_id, end_offset) for voter_id in self._cluster.voters.by_id}
        known = {epoch for epoch in synced.values() if epoch not in (NO_NODE, _BEHIND_A_SNAPSHOT)}
        name = f"node {member.node_id} commits up to {end_offset}"
        for epoch in known:
            has = [voter_id for voter_id, other in synced.items() if other in (epoch, _BEHIND_A_SNAPSHOT)]
            if len(has) > len(synced) // 2:
                self.require(
                    Promise.OWN_EPOCH, own_epoch in (None, epoch), f"{name} of epoch {epoch}, leading {own_epoch}"
                )
                return
        self.require(Promise.DURABILITY, False, f"{name}, which is synced as {synced}")

    def _synced_epoch(self, voter_id: int, end_offset: int) -> int:
        disk = self._cluster.members[voter_id].disk
        if disk.start_offset >= end_offset:
            return _BEHIND_A_SNAPSHOT
        synced = disk.batches[: disk.synced]
        return next((batch.epoch for batch in synced if batch.next_offset == end_offset), NO_NODE)

    def stores(self, member: Any, state: ElectionState) -> None:
        before = member.disk.quorum_state or ElectionState()
        name = f"node {member.node_id} in epoch {state.epoch}"
        self.require(Promise.MONOTONE, state.epoch >= before.epoch, f"{name} had stored {before}")
        if state.epoch == before.epoch:
            for old, new in ((before.leader_id, state.leader_id), (before.voted_id, state.voted_id)):
                self.require(
                    Promise.ELECTION_SAFETY,
                    NO_NODE in (old, new) or old == new,
                    f"{name} had stored {before}, then {state}",
                )

    def answers(self, member: Any, request: Any, response: Any) -> None:
        if not isinstance(response, VoteResponse) or not response.topics:
            return
        requested = request.topics[0].partitions[0]
        assert isinstance(request, VoteRequest)
        if response.topics[0].partitions[0].vote_granted and not requested.pre_vote:
            key = (member.node_id, requested.replica_epoch)
            voted = self._votes.setdefault(key, requested.replica_id)
            self.require(
                Promise.ELECTION_SAFETY,
                voted == requested.replica_id,
                f"node {key[0]} voted for {voted} and {requested.replica_id} in {key[1]}",
            )
            stored = member.disk.quorum_state or ElectionState()
            reported_first = stored.epoch < key[1] or (
                stored.epoch == key[1] and stored.voted_id not in (NO_NODE, voted)
            )
            self.require(
                Promise.ELECTION_SAFETY,
                not reported_first,
                f"node {key[0]} voted for {voted} in {key[1]} and stored {stored}",
            )

    def truncates(self, member: Any, end_offset: int) -> None:
        self.require(
            Promise.LEADER_APPEND_ONLY,
            member.raft.role is not Role.LEADER,
            f"the leader {member.node_id} cuts its log at {end_offset}",
        )
        before = member.disk.end_offset
        self.require(
            Promise.TRUNCATIONS_DROP,
            end_offset < before,
            f"node {member.node_id} cuts its log at {end_offset}, and it ended at {before}",
        )
        applied = self._applied[member.node_id]
        self.require(
            Promise.STATE_MACHINE_SAFETY,
            end_offset >= applied,
            f"node {member.node_id} cuts at {end_offset}, having applied {applied}",
        )

    def wrote(self, member: Any) -> None:
        """Compare the batches that a node has just written with all earlier ones."""
        disk = member.disk
        for at in range(disk.synced, len(disk.batches)):
            batch = disk.batches[at]
            before = (disk.batches[at - 1].base_offset, disk.batches[at - 1].epoch) if at else None
            data, other_before = self._batches.setdefault((batch.base_offset, batch.epoch), (batch.data, before))
            name = f"the batch of epoch {batch.epoch} at {batch.base_offset} of node {member.node_id}"
            self.require(Promise.LOG_MATCHING, data == batch.data, f"{name} is another one than elsewhere")
            self.require(
                Promise.LOG_MATCHING,
                None in (before, other_before) or before == other_before,
                f"{name} follows another one",
            )

    def applies(self, member: Any, high_watermark: int) -> None:
        """Apply what the node has committed."""
        applied = self._applied[member.node_id]
        name = f"node {member.node_id}"
        for batch in member.disk.batches:
            if batch.base_offset < applied or batch.next_offset > high_watermark:
                continue
            self.require(
                Promise.STATE_MACHINE_SAFETY,
                batch.base_offset == applied,
                f"{name} applies {batch.base_offset} after {applied}",
            )
            before, _ = self.states[applied]
            state = hashlib.md5(before.encode() + batch.data).hexdigest(), batch.epoch
            applied = batch.next_offset
            self.require(
                Promise.STATE_MACHINE_SAFETY,
                self.states.setdefault(applied, state) == state,
                f"{name} applies another batch up to {applied}",
            )
        applied = max(applied, member.disk.start_offset)
        self.require(
            Promise.STATE_MACHINE_SAFETY,
            applied >= high_watermark,
            f"{name} has {applied} and should apply up to {high_watermark}",
        )
        self._applied[member.node_id] = applied

    def snapshot_of(self, member: Any) -> SnapshotId | None:
        """Return the id of a snapshot taken now; None if nothing is new."""
        applied = self._applied[member.node_id]
        newest = member.disk.snapshot
        return SnapshotId(applied, self.states[applied][1]) if applied > (newest.end_offset if newest else 0) else None

    def state_at(self, snapshot: SnapshotId) -> bytes:
        """Return the bytes of a snapshot."""
        state, epoch = self.states[snapshot.end_offset]
        self.require(Promise.STATE_MACHINE_SAFETY, epoch == snapshot.epoch, f"a snapshot {snapshot} of epoch {epoch}")
        return state.encode() + _FILLING

    def loads(self, member: Any) -> None:
        """Check a snapshot that a node has received."""
        snapshot = member.disk.snapshot
        data = member.disk.snapshots[snapshot]
        known = self.states.get(snapshot.end_offset)
        self.require(
            Promise.STATE_MACHINE_SAFETY,
            known is not None and data == self.state_at(snapshot),
            f"{snapshot} arrived as {data!r}",
        )
        self.require(
            Promise.STATE_MACHINE_SAFETY,
            snapshot.end_offset >= self._applied[member.node_id],
            f"node {member.node_id} goes back to {snapshot}",
        )
        self._applied[member.node_id] = snapshot.end_offset

    def resets_to_snapshot(self, member: Any) -> None:
        """Check a node's log after a snapshot has replaced it."""
        log, snapshot = member.raft.log, member.disk.snapshot
        # Nothing below the snapshot is known, not even in epochs before its own.
        known = log.end_of(snapshot.epoch - 1)
        self.require(
            Promise.SNAPSHOT_EPOCHS,
            known is None and log.end_epoch == snapshot.epoch,
            f"node {member.node_id} begins behind {snapshot} with {log}",
        )

    def makes_progress(self, than: int) -> None:
        """Require one leader, and that every node has applied more than `than`."""
        missing = self.missing(than)
        if missing is not None:
            promise, what = missing
            self.require(promise, False, f"all faults have healed, but {what}")

    def missing(self, than: int) -> tuple[Promise, str] | None:
        """Return the nodes that do not yet follow the one leader, or have not applied more than `than`."""
        leader = self._cluster.leader()
        if leader is None:
            return Promise.ELECTS, "no leader"
        behind = None
        for member in self._cluster.members.values():
            raft, applied = member.raft, self._applied[member.node_id]
            if (raft.leader_id, raft.epoch) != (leader.node_id, leader.epoch):
                what = f"node {member.node_id} does not follow {leader.node_id} in epoch {leader.epoch}"
                return Promise.ALL_FOLLOW, what
            if applied <= than and behind is None:
                what = f"node {member.node_id} has applied {applied}, and {than} was committed before"
                behind = Promise.ALL_APPLY, what
        return behind
