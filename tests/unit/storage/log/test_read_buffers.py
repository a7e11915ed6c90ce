from storage.log.read_buffers import BUFFER_BYTES, KEPT, SMALLEST_BYTES, ReadBuffers


def test_buffer_is_not_reused_while_any_view_of_it_exists() -> None:
    buffers = ReadBuffers()
    first = buffers.take(BUFFER_BYTES)
    part = first[10:20]
    part[:] = b"0123456789"
    del first
    second = buffers.take(BUFFER_BYTES)
    second[:] = bytes(BUFFER_BYTES)
    assert bytes(part) == b"0123456789"
    assert part.obj is not second.obj


def test_released_buffer_is_reused() -> None:
    buffers = ReadBuffers()
    identity = id(buffers.take(BUFFER_BYTES).obj)
    assert id(buffers.take(SMALLEST_BYTES).obj) == identity


def test_view_has_the_requested_size() -> None:
    buffers = ReadBuffers()
    sizes = (0, 1, SMALLEST_BYTES - 1, SMALLEST_BYTES, BUFFER_BYTES, BUFFER_BYTES + 1)
    assert [len(buffers.take(size)) for size in sizes] == list(sizes)


def test_only_some_buffers_are_kept() -> None:
    buffers = ReadBuffers()
    held = [buffers.take(BUFFER_BYTES) for _ in range(2 * KEPT)]
    assert len({id(view.obj) for view in held}) == 2 * KEPT
    assert len(buffers._buffers) == KEPT
