"""Start groups: brokers that one program starts together, each of which is ready once it knows all of them.

The controller commits that a broker is unfenced; other brokers apply that record later. Until then, a client's Metadata
request to another broker would return only part of the cluster. The incarnation ids begin with the group's tag, so a
broker that is still registered as active from before a kill is not mistaken for the one that is starting.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from broker.metadata.raft_driver import RaftDriver
from controller.image import MetadataImage

TAG_BYTES = 8

WAIT_S = 30.0
"""Maximum wait for the other brokers, in seconds: one that hangs must not keep the rest from serving."""

_log = logging.getLogger("broker")


class StartGroup(NamedTuple):
    """A tag of `TAG_BYTES` random bytes shared by all brokers of one start, and the number of these brokers."""

    tag: bytes
    brokers: int

    @classmethod
    def parse(cls, text: str) -> StartGroup:
        """Return the group in `text`, TAG:BROKERS with a hexadecimal tag; ValueError if malformed."""
        tag, _, brokers = text.partition(":")
        group = cls(bytes.fromhex(tag), int(brokers))
        if len(group.tag) != TAG_BYTES or group.brokers < 1:
            raise ValueError(text)
        return group

    def has(self, incarnation_id: bytes) -> bool:
        """Return whether the run of a broker with this incarnation id belongs to the start."""
        return incarnation_id.startswith(self.tag)

    def is_known_to(self, image: MetadataImage) -> bool:
        """Return whether all brokers of the group are unfenced in `image`."""
        return len(self.known_in(image)) >= self.brokers

    def known_in(self, image: MetadataImage) -> list[int]:
        """Return the ids of the group's brokers that are unfenced in `image`."""
        brokers = image.brokers.values()
        return sorted(one.broker_id for one in brokers if not one.fenced and self.has(one.incarnation_id))


def incarnation_id(random_bytes: bytes, group: StartGroup | None) -> bytes:
    """Return the incarnation id of one run: 16 `random_bytes`, of which a group replaces the first by its tag."""
    return random_bytes if group is None else group.tag + random_bytes[TAG_BYTES:]


async def until_known(group: StartGroup, controller: RaftDriver, loop: asyncio.AbstractEventLoop) -> None:
    """Wait until all brokers of `group` are unfenced in the metadata applied here, for at most `WAIT_S`."""
    known = loop.create_future()

    def check(_before: MetadataImage, image: MetadataImage, _records: object) -> None:
        if not known.done() and group.is_known_to(image):
            known.set_result(None)

    controller.subscribe(check)
    try:
        check(controller.image, controller.image, ())
        await asyncio.wait([known], timeout=WAIT_S)
    finally:
        controller.unsubscribe(check)
    if not known.done():
        active = group.known_in(controller.image)
        registered = sorted(controller.image.brokers.keys() - set(active))
        _log.warning(
            "Serving without %d of the %d brokers that were started together, after %g s; active: %s; inactive: %s",
            group.brokers - len(active),
            group.brokers,
            WAIT_S,
            _listed(active),
            _listed(registered),
        )


def _listed(ids: list[int]) -> str:
    return ", ".join(map(str, ids)) or "none"
