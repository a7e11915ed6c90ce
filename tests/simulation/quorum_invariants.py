"""Invariants of a cluster's metadata, checked in its nodes after every event.

One node leads the quorum in an epoch and commits by counting only entries of its own epoch (Raft section 5.4.2); a
majority of the voters has all committed records; the metadata at an offset is the same on every node, whether from
records or a snapshot; the applied offset of a node only increases while its process lives; a voter never forgets its
vote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.raft.messages import NO_NODE, ElectionState, Role
from simulation.cluster import Host, World
from simulation.violation import Invariant

if TYPE_CHECKING:
    from broker.metadata.raft_driver import RaftDriver
    from controller.image import MetadataImage
    from controller.raft.raft_node import RaftNode

_OF_READERS = {"lasting_memo", "memo"}


class QuorumInvariants:
    """Check the quorum's nodes, each after its own events."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._leaders: dict[int, str] = {}
        self._committed = 0
        self._images: dict[int, MetadataImage] = {}
        self._applied: dict[str, tuple[int, int]] = {}
        self._states: dict[str, tuple[int, ElectionState]] = {}
        self._own_committed: dict[str, tuple[int, int]] = {}
        self._looked: dict[str, tuple[int, MetadataImage, Role, ElectionState, int, int, bool]] = {}

    def look(self, host: Host, controller: RaftDriver) -> None:
        """Check a node if its state has changed since the last check."""
        node, log = getattr(controller, "_node", None), getattr(controller, "_log", None)
        if node is not None and log is not None:
            looked = self._looked.get(host.name)
            if looked is not None:
                starts, image, role, state, high_watermark, end_offset, idle = looked
                if (
                    image is controller.image
                    and high_watermark == node.high_watermark
                    and end_offset == log.end_offset
                    and state is node.election
                    and role is node.role
                    and idle is (controller._running is None)
                    and starts == host.starts
                ):
                    return
            self._looked[host.name] = (
                *(host.starts, controller.image, node.role, node.election, node.high_watermark),
                *(log.end_offset, controller._running is None),
            )
        self._look_at_image(host, controller.image)
        if node is None or log is None or not host.is_voter:
            return
        self._look_at_state(host, controller, node)
        check = self._world.check
        if node.role is Role.LEADER:
            known = self._leaders.setdefault(node.epoch, host.name)
            check(
                Invariant.ONE_QUORUM_LEADER,
                known == host.name,
                f"{host.name} leads the quorum in epoch {node.epoch}, as {known} does",
            )
            self._look_at_commits(host, node)
        ends = self._world.metadata_ends
        # A voter that lost committed entries, as in a power cut: a majority must still have them.
        lost = log.end_offset < self._committed <= ends.get(host.name, 0)
        ends[host.name] = log.end_offset
        if node.high_watermark > self._committed or lost:
            self._committed = max(self._committed, node.high_watermark)
            voters = [other for other in host.cluster if other.is_voter]
            behind = sum(ends.get(other.name, 0) >= self._committed for other in voters)
            enough = 2 * behind > len(voters)
            check(
                Invariant.METADATA_ON_A_MAJORITY,
                enough,
                f"{behind} of {len(voters)} voters have the metadata up to {self._committed}",
            )

    def _look_at_image(self, host: Host, image: MetadataImage) -> None:
        check = self._world.check
        starts, before = self._applied.get(host.name, (0, -1))
        if starts == host.starts and image.offset == before:
            return
        if starts == host.starts:
            check(
                Invariant.METADATA_RISES,
                image.offset > before,
                f"the metadata of {host.name} went back from {before} to {image.offset}",
            )
        self._applied[host.name] = host.starts, image.offset
        if image.offset > self._world.newest_offset:
            self._world.newest = image
        known = self._images.setdefault(image.offset, image)
        if known is not image:
            names = [name for name in type(image).__slots__ if name not in _OF_READERS]
            different = ", ".join(sorted(name for name in names if getattr(known, name) != getattr(image, name)))
            check(
                Invariant.METADATA_IS_THE_SAME,
                not different,
                f"{host.name} has other metadata at {image.offset} than was there: {different}",
            )

    def _look_at_state(self, host: Host, controller: RaftDriver, node: RaftNode) -> None:
        """Record what a voter has stored and acted on; after a restart it must still have that."""
        starts, kept = self._states.get(host.name, (host.starts, ElectionState()))
        state = node.election
        if starts != host.starts:
            remembers = state.epoch > kept.epoch or (
                state.epoch == kept.epoch and (kept.voted_id in (NO_NODE, state.voted_id) or state.leader_id != NO_NODE)
            )
            self._world.check(
                Invariant.VOTES_ARE_KEPT, remembers, f"{host.name} has voted as {kept}, and knows of {state}"
            )
        if starts != host.starts or controller._running is None:
            self._states[host.name] = host.starts, state

    def _look_at_commits(self, host: Host, node: RaftNode) -> None:
        """Check that a leader commits only up to an entry of its own epoch."""
        epoch, before = self._own_committed.get(host.name, (-1, 0))
        former = node.log.end_of(node.epoch - 1)
        if epoch == node.epoch and node.high_watermark > before and former is not None:
            self._world.check(
                Invariant.QUORUM_COMMITS_ITS_EPOCH,
                node.high_watermark > former.end_offset,
                f"{host.name} leads in epoch {node.epoch}, which begins at {former.end_offset}, and has committed"
                f" up to {node.high_watermark}",
            )
        self._own_committed[host.name] = node.epoch, node.high_watermark
