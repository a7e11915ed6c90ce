"""Frame buffers are reused, but only when nothing refers to their content."""

from protocol.frame_buffers import BUFFER_BYTES, KEPT, SMALLEST_BYTES, FrameBuffers


def test_buffer_has_the_requested_size() -> None:
    buffers = FrameBuffers()
    sizes = (1, SMALLEST_BYTES - 1, SMALLEST_BYTES, BUFFER_BYTES, BUFFER_BYTES + 1)
    assert [len(buffers.take(size)) for size in sizes] == list(sizes)


def test_buffer_is_reused_after_its_view_is_released() -> None:
    buffers = FrameBuffers()
    first = id(buffers.take(SMALLEST_BYTES).obj)
    assert id(buffers.take(BUFFER_BYTES).obj) == first


def test_buffer_is_not_reused_while_a_partial_view_exists() -> None:
    buffers = FrameBuffers()
    part = buffers.take(SMALLEST_BYTES)[10:20]
    other = buffers.take(SMALLEST_BYTES)
    other[:] = b"x" * SMALLEST_BYTES
    assert other.obj is not part.obj
    assert bytes(part) == bytes(10)


def test_buffers_beyond_the_pool_limit_are_allocated() -> None:
    buffers = FrameBuffers()
    views = [buffers.take(SMALLEST_BYTES) for _ in range(KEPT + 2)]
    assert len({id(view.obj) for view in views}) == KEPT + 2
    assert [len(bytes(view.obj)) for view in views[KEPT:]] == [SMALLEST_BYTES] * 2
