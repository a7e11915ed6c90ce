"""What holds of the metadata of a cluster after every event, looked up in its nodes.

One node leads the quorum in an epoch; a majority of the voters has all that is committed; what is committed at an
offset is the same on every node, whoever applies it when; what a node has applied only grows while its process lives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from controller.raft_messages import Role
from protocol.records.metadata import encode_metadata_record
from tests.simulation.cluster import Host, World

if TYPE_CHECKING:
    from broker.raft_driver import RaftDriver
    from controller.image import MetadataImage
    from protocol.schema import Message


class QuorumInvariants:
    """Looks at the quorum's nodes, as observer of one after each of its events, and of all that they apply."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._leaders: dict[int, str] = {}
        self._ends: dict[str, int] = {}
        self._committed = 0
        self._records: dict[int, int] = {}
        self._applied: dict[str, tuple[int, int]] = {}
        world.applied = self._apply

    def look(self, host: Host, controller: RaftDriver) -> None:
        """Look at a node."""
        check, image = self._world.check, controller.image
        starts, before = self._applied.get(host.name, (0, -1))
        if starts == host.starts and image.offset < before:
            check(False, f"the metadata of {host.name} went back from {before} to {image.offset}")
        self._applied[host.name] = host.starts, image.offset
        if image.offset > self._world.newest_offset:
            self._world.newest = image
        node, log = getattr(controller, "_node", None), getattr(controller, "_log", None)
        if node is None or log is None or not host.is_voter:
            return
        if node.role is Role.LEADER:
            known = self._leaders.setdefault(node.epoch, host.name)
            check(known == host.name, f"{host.name} leads the quorum in epoch {node.epoch}, as {known} does")
        self._ends[host.name] = log.end_offset
        if node.high_watermark > self._committed:
            self._committed = node.high_watermark
            voters = [other for other in host.cluster if other.is_voter]
            behind = sum(self._ends.get(other.name, 0) >= self._committed for other in voters)
            enough = 2 * behind > len(voters)
            check(enough, f"{behind} of {len(voters)} voters have the metadata up to {self._committed}")

    def _apply(self, host: Host, before: MetadataImage, after: MetadataImage, records: tuple[Message, ...]) -> None:
        """Hold what a node applies against what others did at that offset."""
        if after.offset - before.offset != len(records):
            return  # from a snapshot
        told = crc32(b"".join(map(encode_metadata_record, records)))
        known = self._records.setdefault(after.offset, told)
        self._world.check(known == told, f"{host.name} applies other metadata than was applied at {after.offset}")
