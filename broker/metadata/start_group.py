"""Brokers that one program starts together, each of which is ready once it knows all the others.

A broker is unfenced when the controller has committed that; the others apply the record some time later. A client that
asked one of them meanwhile would be given a part of the cluster only. Their incarnation ids begin with the group's tag:
so a broker that is still registered as active from before a kill is not taken for the one that is starting.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker.metadata.raft_driver import RaftDriver
    from controller.image import MetadataImage

TAG_BYTES = 8

WAIT_S = 30.0
"""How long a broker waits for the others: one that hangs must not keep the rest from serving."""

_log = logging.getLogger("broker")


class StartGroup(NamedTuple):
    """A tag of `TAG_BYTES` random bytes that all brokers of one start share, and how many brokers there are."""

    tag: bytes
    brokers: int

    @classmethod
    def parse(cls, text: str) -> StartGroup:
        """Return the group that is written as TAG:BROKERS, the tag in hexadecimal; ValueError if `text` is not one."""
        tag, _, brokers = text.partition(":")
        group = cls(bytes.fromhex(tag), int(brokers))
        if len(group.tag) != TAG_BYTES or group.brokers < 1:
            raise ValueError(text)
        return group

    def is_known_to(self, image: MetadataImage) -> bool:
        """Return whether all brokers of the group are unfenced in `image`."""
        return len(self.known_in(image)) >= self.brokers

    def known_in(self, image: MetadataImage) -> list[int]:
        """Return the ids of the brokers of the group that are unfenced in `image`."""
        brokers = image.brokers.values()
        return sorted(one.broker_id for one in brokers if not one.fenced and one.incarnation_id.startswith(self.tag))


def incarnation_id(drawn: bytes, group: StartGroup | None) -> bytes:
    """Return the id of one run of a broker, which starts in `group` or by itself, of 16 random bytes."""
    return drawn if group is None else group.tag + drawn[TAG_BYTES:]


async def until_known(group: StartGroup, controller: RaftDriver, loop: asyncio.AbstractEventLoop) -> None:
    """Wait until the metadata that this broker has applied has all brokers of `group` unfenced, or for `WAIT_S`."""
    known = loop.create_future()

    def look(_before: MetadataImage, image: MetadataImage, _records: object) -> None:
        if not known.done() and group.is_known_to(image):
            known.set_result(None)

    controller.subscribe(look)
    try:
        look(controller.image, controller.image, ())
        await asyncio.wait([known], timeout=WAIT_S)
    finally:
        controller.unsubscribe(look)
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
