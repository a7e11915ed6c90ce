"""Random ids of topics and ACLs (Kafka: `Uuid.randomUuid`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

_DASH = 0b111110
"""The first six bits of a uuid whose base64 begins with a dash, which command lines take for an option."""


def random_uuid(random: Random) -> bytes:
    """Return a random (version 4) uuid whose text does not begin with a dash."""
    while True:
        value = bytearray(random.randbytes(16))
        value[6] = value[6] & 0x0F | 0x40
        value[8] = value[8] & 0x3F | 0x80
        if value[0] >> 2 != _DASH:
            return bytes(value)
