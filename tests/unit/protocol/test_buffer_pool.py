"""Buffers are reused, but only when nothing refers to their content."""

from __future__ import annotations

import subprocess
import sys

import pytest

from protocol import buffer_pool
from protocol.buffer_pool import EXACT, SMALLEST_BYTES, BufferPool, is_alone

BUFFER_BYTES = 4 * SMALLEST_BYTES
KEPT = 3


@pytest.fixture
def pool() -> BufferPool:
    return BufferPool(BUFFER_BYTES, KEPT)


def test_view_has_the_requested_size(pool: BufferPool) -> None:
    sizes = (0, 1, SMALLEST_BYTES - 1, SMALLEST_BYTES, BUFFER_BYTES, BUFFER_BYTES + 1)
    assert [len(pool.take(size)) for size in sizes] == list(sizes)


def test_buffer_is_reused_after_its_view_is_released(pool: BufferPool) -> None:
    identity = id(pool.take(BUFFER_BYTES).obj)
    assert id(pool.take(SMALLEST_BYTES).obj) == identity


def test_buffer_is_not_reused_while_any_view_of_it_exists(pool: BufferPool) -> None:
    first = pool.take(BUFFER_BYTES)
    part = first[10:20]
    part[:] = b"0123456789"
    del first
    second = pool.take(BUFFER_BYTES)
    second[:] = bytes(BUFFER_BYTES)
    assert bytes(part) == b"0123456789"
    assert part.obj is not second.obj


def test_buffers_beyond_the_limit_are_allocated_and_not_kept(pool: BufferPool) -> None:
    views = [pool.take(SMALLEST_BYTES) for _ in range(KEPT + 2)]
    assert len({id(view.obj) for view in views}) == KEPT + 2
    assert [len(bytes(view.obj)) for view in views[KEPT:]] == [SMALLEST_BYTES] * 2
    assert len(pool._buffers) == KEPT


def test_this_interpreter_counts_exactly() -> None:
    assert EXACT


def test_object_is_unreferenced_while_only_the_list_refers_to_it() -> None:
    objects = [bytearray(), bytearray()]
    assert is_alone(objects, 0)
    view = memoryview(objects[0])[:0]
    assert not is_alone(objects, 0)
    assert is_alone(objects, 1)
    del view
    assert is_alone(objects, 0)


def test_where_references_are_not_counted_exactly_no_buffer_is_used_again(
    pool: BufferPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffer_pool, "EXACT", False)
    kept = pool.take(SMALLEST_BYTES)
    identity = id(kept.obj)
    del kept
    assert id(pool.take(SMALLEST_BYTES).obj) != identity


@pytest.mark.parametrize(
    ("change", "exact"),
    [("", True), ("sys.abiflags += 't'", False), ("sys.implementation.name = 'pypy'; del sys.getrefcount", False)],
)
def test_build_determines_whether_reference_counts_are_exact(change: str, exact: bool) -> None:
    program = f"import sys\n{change}\nfrom protocol.buffer_pool import EXACT\nprint(EXACT)"
    reported = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert reported.stdout.strip() == str(exact)
