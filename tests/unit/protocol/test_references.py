"""Detection of further references to an object of a list."""

from __future__ import annotations

import subprocess
import sys

import pytest

from protocol import references
from protocol.frame_buffers import SMALLEST_BYTES as SMALLEST_FRAME
from protocol.frame_buffers import FrameBuffers
from protocol.references import EXACT, is_alone
from storage.log.read_buffers import SMALLEST_BYTES as SMALLEST_READ
from storage.log.read_buffers import ReadBuffers


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


@pytest.mark.parametrize(
    ("pool", "size"), [(FrameBuffers(), SMALLEST_FRAME), (ReadBuffers(), SMALLEST_READ)], ids=["frames", "reads"]
)
def test_where_references_are_not_counted_exactly_no_buffer_is_used_again(
    pool: FrameBuffers | ReadBuffers, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "EXACT", False)
    kept = pool.take(size)
    identity = id(kept.obj)
    del kept
    assert id(pool.take(size).obj) != identity


@pytest.mark.parametrize(
    ("change", "exact"),
    [("", True), ("sys.abiflags += 't'", False), ("sys.implementation.name = 'pypy'; del sys.getrefcount", False)],
)
def test_build_determines_whether_reference_counts_are_exact(change: str, exact: bool) -> None:
    program = f"import sys\n{change}\nfrom protocol.references import EXACT\nprint(EXACT)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(exact)
