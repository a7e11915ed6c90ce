"""Maps keys to their last offsets in bounded memory (Kafka: `SkimpyOffsetMap`): 24 bytes a key, whatever its length.

If memory allows, one more byte for each mapped offset has the fate of its record: rewriting a batch then looks up no
keys.

A key is identified by 16 bytes of its BLAKE2b digest: the chance that two of five million keys share a digest is
10^-25. The table uses open addressing with double hashing, in pages of 128 KB. A page is allocated at its first key, so
that no step takes long and a small log takes little memory; a digest belongs to one page. A slot:

    uint64  first half of the digest; selects the page and the first slot
    uint64  second half; the distance between probes
    uint64  offset + 1; 0: the slot is free
"""

from array import array
from hashlib import blake2b
from struct import Struct

from protocol.primitives import Buffer

ENTRY_BYTES = 24
# A prime, so that probing reaches every slot. The load of pages varies by 1.4 % (one standard deviation): at a load
# factor of 0.9 a page fills up only with keys chosen to do so; the map then counts as full.
_PAGE_SLOTS = 5449
_MAX_LOAD_FACTOR = 0.9
_PRIME_GAP = 40  # between primes up to `_PAGE_SLOTS`

_DIGEST = Struct("=QQ")
_NONE = -1

# The fate of the record at a mapped offset: removed, kept, or kept until the delete horizon.
REPLACED, LATEST, TOMBSTONE = 0, 1, 2


class OffsetMap:
    """Keys and their last offsets; `latest_offset` is the last offset of the log that was mapped."""

    __slots__ = ("_fates", "_first_offset", "_keys", "_pages", "_slots", "key_count", "latest_offset", "most_keys")

    def __init__(self, memory_bytes: int, most_keys: int, load_factor: float = 0.9, first_offset: int = 0) -> None:
        """Size the map for `most_keys` keys at offsets from `first_offset` on, within `memory_bytes`.

        It has room for at least one key.
        """
        load_factor = min(load_factor, _MAX_LOAD_FACTOR)
        self._first_offset = first_offset
        # The byte per offset is used if it takes at most a quarter of the memory.
        self._fates = bytearray(most_keys) if most_keys <= memory_bytes // 4 else None
        if self._fates is not None:
            memory_bytes -= most_keys
        affordable, needed = memory_bytes // ENTRY_BYTES, int(most_keys / load_factor) + _PRIME_GAP
        pages = max(min(affordable // _PAGE_SLOTS, -(-needed // _PAGE_SLOTS)), 1)
        self._slots = _PAGE_SLOTS if pages > 1 else _prime_up_to(max(min(affordable, needed, _PAGE_SLOTS), 2))
        self._pages: list[array[int] | None] = [None] * pages
        self._keys = [0] * pages  # per page
        self.most_keys = max(int(self._slots * pages * load_factor), 1)
        self.key_count = 0
        self.latest_offset = _NONE

    def put(self, key: Buffer, offset: int, has_value: bool = True) -> bool:
        """Set the last offset of `key`; offsets must increase, and `key_count` be below `most_keys`.

        Return whether a page was allocated, which takes as long as a hundred other calls.
        """
        first, second = _DIGEST.unpack(blake2b(key, digest_size=16).digest())
        slots, fates = self._slots, self._fates
        if fates is not None:
            fates[offset - self._first_offset] = LATEST if has_value else TOMBSTONE
        number = first % len(self._pages)
        page = self._pages[number]
        is_new = page is None
        if page is None:
            page = self._pages[number] = array("Q", (0,)) * (3 * slots)
        slot = (first >> 32) % slots
        at = slot * 3
        while page[at + 2]:
            if page[at] == first and page[at + 1] == second:
                if fates is not None:
                    fates[page[at + 2] - 1 - self._first_offset] = REPLACED
                page[at + 2] = offset + 1
                return False
            slot = (slot + 1 + second % (slots - 1)) % slots
            at = slot * 3
        page[at], page[at + 1], page[at + 2] = first, second, offset + 1
        self.key_count += 1
        self._keys[number] += 1
        if self._keys[number] == slots - 1:
            self.most_keys = self.key_count  # leave one slot free: probing ends at a free slot
        return is_new

    def fates(self, base_offset: int, last_offset: int) -> bytearray | None:
        """Return REPLACED, LATEST or TOMBSTONE for each of these offsets; None unless all of them are known."""
        fates = self._fates
        if fates is None or base_offset < self._first_offset or last_offset > self.latest_offset:
            return None
        return fates[base_offset - self._first_offset : last_offset + 1 - self._first_offset]

    def get(self, key: Buffer) -> int:
        """Return the last offset of `key`; -1 if it is not in the map."""
        first, second = _DIGEST.unpack(blake2b(key, digest_size=16).digest())
        page: array[int] | None = self._pages[first % len(self._pages)]
        if page is None:
            return _NONE
        slots = self._slots
        slot = (first >> 32) % slots
        at = slot * 3
        while found := page[at + 2]:
            if page[at] == first and page[at + 1] == second:
                return int(found) - 1
            slot = (slot + 1 + second % (slots - 1)) % slots
            at = slot * 3
        return _NONE


def _prime_up_to(bound: int) -> int:
    """Return the largest prime up to `bound`, at least 2, so that probing reaches every slot."""
    return next(
        number for number in range(bound, 1, -1) if all(number % factor for factor in range(2, int(number**0.5) + 1))
    )
