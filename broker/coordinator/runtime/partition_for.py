"""The partition of an internal topic that a group belongs to (Kafka: `Utils.abs(key.hashCode()) % partitions`).

All brokers of all versions must agree: Java's string hash, over UTF-16 code units, in 32 bits.
"""

from __future__ import annotations

from array import array
from functools import lru_cache


@lru_cache(maxsize=65_536)
def partition_for(key: str, partitions: int) -> int:
    """Return the partition, of `partitions`, that `key` belongs to."""
    return java_hash(key) % partitions


def java_hash(text: str) -> int:
    """Return `Utils.abs(text.hashCode())`: the absolute value, 0 for the smallest integer."""
    value = 0
    units = array("H")
    units.frombytes(text.encode("utf-16", "surrogatepass")[2:])
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    if value == 0x80000000:
        return 0
    return value if value < 0x80000000 else 0x100000000 - value
