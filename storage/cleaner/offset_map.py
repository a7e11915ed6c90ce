"""Of each key the last offset, in bounded memory: 24 bytes a key whatever its length, as in Apache Kafka.

Where memory allows there is also a byte for each offset that was mapped, which says what becomes of its record: the
second look at a batch then needs no key.

Keys are known by 16 bytes of their BLAKE2b digest: two of five million keys share one with a chance of 10^-25. The
table is open addressing with double hashing in pages of 128 KB, which are made when their first key comes, so that no
step takes long and a small log takes little; a digest belongs to one page.

    uint64  first half of the digest, which names the page and the slot
    uint64  second half, which says how far the next slot is if that is taken
    uint64  offset + 1; 0: the slot is free
"""

from array import array
from hashlib import blake2b
from struct import Struct

from protocol.primitives import Buffer

ENTRY_BYTES = 24
# A prime, so that every jump comes to every slot. Pages differ in how full they are by 1.4 % (one standard deviation):
# at this load, none of them fills up but by intent, and then the map is full.
_PAGE_SLOTS = 5449
_MAX_LOAD_FACTOR = 0.9
_PRIME_GAP = 40  # below that size there is always a prime that near

_DIGEST = Struct("=QQ")
_NONE = -1

# Of an offset that was mapped: whether its record stays.
GOES, STAYS, TOMBSTONE = 0, 1, 2


class OffsetMap:
    """Keys and their last offsets; `latest_offset` is how far the log has been taken in."""

    __slots__ = ("_first_offset", "_keys", "_pages", "_slots", "_what_stays", "key_count", "latest_offset", "most_keys")

    def __init__(self, memory_bytes: int, most_keys: int, load_factor: float = 0.9, first_offset: int = 0) -> None:
        """Take at most `memory_bytes`, and not more than `most_keys` at offsets from `first_offset` on need.

        At least one key fits.
        """
        load_factor = min(load_factor, _MAX_LOAD_FACTOR)
        self._first_offset = first_offset
        # A byte for each offset, where a quarter of the memory is enough for that: it saves looking up each key again.
        self._what_stays = bytearray(most_keys) if most_keys <= memory_bytes // 4 else None
        if self._what_stays is not None:
            memory_bytes -= most_keys
        affordable, needed = memory_bytes // ENTRY_BYTES, int(most_keys / load_factor) + _PRIME_GAP
        pages = max(min(affordable // _PAGE_SLOTS, -(-needed // _PAGE_SLOTS)), 1)
        self._slots = _PAGE_SLOTS if pages > 1 else _prime_up_to(max(min(affordable, needed, _PAGE_SLOTS), 2))
        self._pages: list[array[int] | None] = [None] * pages
        self._keys = [0] * pages  # in each of them
        self.most_keys = max(int(self._slots * pages * load_factor), 1)
        self.key_count = 0
        self.latest_offset = _NONE

    def put(self, key: Buffer, offset: int, has_value: bool = True) -> bool:
        """Remember the offset of `key`, later than any before, while there are fewer than `most_keys`.

        Tell whether that took a new page, and with it as long as a hundred other keys.
        """
        first, second = _DIGEST.unpack(blake2b(key, digest_size=16).digest())
        slots, what_stays = self._slots, self._what_stays
        if what_stays is not None:
            what_stays[offset - self._first_offset] = STAYS if has_value else TOMBSTONE
        number = first % len(self._pages)
        page = self._pages[number]
        is_new = page is None
        if page is None:
            page = self._pages[number] = array("Q", (0,)) * (3 * slots)
        slot = (first >> 32) % slots
        at = slot * 3
        while page[at + 2]:
            if page[at] == first and page[at + 1] == second:
                if what_stays is not None:
                    what_stays[page[at + 2] - 1 - self._first_offset] = GOES
                page[at + 2] = offset + 1
                return False
            slot = (slot + 1 + second % (slots - 1)) % slots
            at = slot * 3
        page[at], page[at + 1], page[at + 2] = first, second, offset + 1
        self.key_count += 1
        self._keys[number] += 1
        if self._keys[number] == slots - 1:
            self.most_keys = self.key_count  # a look for a free slot has to come to an end
        return is_new

    def what_stays(self, base_offset: int, last_offset: int) -> bytearray | None:
        """Tell of each of these offsets what becomes of its record; None if that is not known of all."""
        what_stays = self._what_stays
        if what_stays is None or base_offset < self._first_offset or last_offset > self.latest_offset:
            return None
        return what_stays[base_offset - self._first_offset : last_offset + 1 - self._first_offset]

    def get(self, key: Buffer) -> int:
        """Return the last offset of `key`; -1 if it is not known."""
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
    """Return the largest prime up to `bound`, at least 2, so that every jump comes to every slot."""
    return next(
        number for number in range(bound, 1, -1) if all(number % factor for factor in range(2, int(number**0.5) + 1))
    )
