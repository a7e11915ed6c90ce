from hashlib import blake2b
from itertools import count
from random import Random
from sys import byteorder

import pytest

from storage.cleaner.offset_map import ENTRY_BYTES, LATEST, REPLACED, TOMBSTONE, OffsetMap
from tests.typed import present


def test_key_has_its_last_offset() -> None:
    offsets = OffsetMap(1 << 20, 100)
    offsets.put(b"a", 0)
    offsets.put(b"b", 1)
    offsets.put(b"a", 2)
    assert (offsets.get(b"a"), offsets.get(b"b"), offsets.get(b"c"), offsets.key_count) == (2, 1, -1, 2)


@pytest.mark.parametrize("keys", [1, 2, 10, 4904, 4905, 30_000])
def test_map_holds_the_number_of_keys_it_was_made_for(keys: int) -> None:
    offsets = OffsetMap(1 << 30, keys)
    for number in range(keys):
        assert not offsets.key_count >= offsets.most_keys
        offsets.put(b"%d" % number, number)
    assert [offsets.get(b"%d" % number) for number in range(keys)] == list(range(keys))
    assert offsets.get(b"none") == -1


@pytest.mark.parametrize("memory_bytes", [0, 24 * 3, 24 * 1000, 1 << 20])
def test_memory_bounds_the_keys(memory_bytes: int) -> None:
    offsets = OffsetMap(memory_bytes, 1 << 40)
    number = 0
    while not offsets.key_count >= offsets.most_keys:
        offsets.put(b"%d" % number, number)
        number += 1
    assert 1 <= number <= max(memory_bytes // ENTRY_BYTES, 1)
    assert number >= 0.7 * 0.9 * (memory_bytes // ENTRY_BYTES)
    assert all(offsets.get(b"%d" % key) == key for key in range(number))


def test_keys_of_one_page_fill_the_map() -> None:
    offsets = OffsetMap(1 << 20, 1_000_000)
    pages = (1 << 20) // ENTRY_BYTES // 5449
    numbers = (number for number in count() if _first_half(b"%d" % number) % pages == 0)
    chosen = []
    while offsets.key_count < offsets.most_keys:
        chosen.append(next(numbers))
        offsets.put(b"%d" % chosen[-1], chosen[-1])
    assert offsets.key_count == 5448
    assert all(offsets.get(b"%d" % number) == number for number in chosen)
    assert offsets.get(b"%d" % next(numbers)) == -1


def _first_half(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=16).digest()[:8], byteorder)


def test_map_behaves_as_a_dict() -> None:
    random, offsets, model = Random(1), OffsetMap(1 << 20, 5000), dict[bytes, int]()
    for offset in range(5000):
        key = b"%d" % random.randrange(2000)
        offsets.put(key, offset)
        model[key] = offset
    assert {key: offsets.get(key) for key in model} == model
    assert offsets.key_count == len(model)


def test_map_marks_kept_records_by_offset() -> None:
    offsets = OffsetMap(1 << 20, 10, first_offset=50)
    for offset, key in enumerate([b"a", b"b", b"a", b"c", b"b"], 50):
        offsets.put(key, offset, has_value=key != b"c")
    offsets.latest_offset = 55
    assert bytes(present(offsets.fates(50, 55))) == bytes([REPLACED, REPLACED, LATEST, TOMBSTONE, LATEST, REPLACED])
    assert bytes(present(offsets.fates(52, 53))) == bytes([LATEST, TOMBSTONE])
    assert offsets.fates(49, 52) is None
    assert offsets.fates(54, 56) is None


def test_with_little_memory_keys_are_looked_up_instead() -> None:
    offsets = OffsetMap(1 << 10, 257)
    offsets.put(b"a", 0)
    offsets.latest_offset = 0
    assert offsets.fates(0, 0) is None
