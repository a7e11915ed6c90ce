import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import DecodeError
from protocol.framing import (
    FIRST_ALLOCATION_BYTES,
    LARGE_FRAME_BYTES,
    SCRATCH_BYTES,
    SMALL_READ_BYTES,
    FrameReader,
)
from protocol.request_memory import RequestMemory


def reader(*, max_bytes: int = 1 << 30, scratch_bytes: int = 64) -> FrameReader:
    return FrameReader(memoryview(bytearray(scratch_bytes)), max_bytes, RequestMemory())


def feed(frames: FrameReader, data: bytes, *, read_bytes: int = 1 << 30) -> list[bytes]:
    """Feed `data` as a socket does: at most the offered buffer, and at most `read_bytes`, at a time."""
    out = []
    while data:
        buffer = frames.buffer()
        assert buffer, "an event loop takes an empty buffer for an error"
        count = min(len(buffer), len(data), read_bytes)
        buffer[:count] = data[:count]
        out += [bytes(frame) for frame in frames.received(count)]
        data = data[count:]
    return out


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def test_frames_that_arrive_together_are_split() -> None:
    assert feed(reader(), framed(b"one", b"", b"three")) == [b"one", b"", b"three"]


@given(
    bodies=st.lists(st.binary(max_size=300), max_size=8),
    scratch_bytes=st.integers(8, 128),
    read_bytes=st.integers(1, 200),
)
def test_any_cut_of_the_stream_gives_the_same_frames(bodies: list[bytes], scratch_bytes: int, read_bytes: int) -> None:
    frames = reader(scratch_bytes=scratch_bytes)
    assert feed(frames, framed(*bodies), read_bytes=read_bytes) == bodies


@given(
    sizes=st.lists(st.integers(0, 400_000), max_size=8),
    read_bytes=st.sampled_from((1 << 10, 1 << 16, 100_000, 1 << 20)),
)
def test_any_cut_of_large_frames_gives_the_same_frames(sizes: list[int], read_bytes: int) -> None:
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    frames = reader(scratch_bytes=SCRATCH_BYTES)
    assert feed(frames, framed(*bodies), read_bytes=read_bytes) == bodies


def test_frame_with_more_than_a_first_step_received_is_completed() -> None:
    frames = reader(scratch_bytes=SCRATCH_BYTES)
    assert feed(frames, framed(bytes(LARGE_FRAME_BYTES))) == [bytes(LARGE_FRAME_BYTES)]
    assert feed(frames, framed(bytes(130_000)), read_bytes=100_000) == [bytes(130_000)]


@given(
    bodies=st.lists(st.tuples(st.booleans(), st.binary(max_size=100)), max_size=12),
    read_bytes=st.integers(1, 50),
)
def test_readers_that_share_a_scratch_buffer_do_not_disturb_each_other(
    bodies: list[tuple[bool, bytes]], read_bytes: int
) -> None:
    scratch = memoryview(bytearray(32))
    readers = [FrameReader(scratch, 1000, RequestMemory()) for _ in range(2)]
    sent = [framed(*(body for which, body in bodies if which is side)) for side in (False, True)]
    got: list[list[bytes]] = [[], []]
    while any(sent):
        for side in (0, 1):
            chunk, sent[side] = sent[side][:read_bytes], sent[side][read_bytes:]
            got[side] += feed(readers[side], chunk)
    assert got == [[body for which, body in bodies if which is side] for side in (False, True)]


def test_an_incomplete_frame_is_read_into_a_buffer_of_exactly_its_size() -> None:
    frames = reader()
    assert feed(frames, framed(bytes(1000))[:40]) == []
    assert len(frames.buffer()) == 1000 - 36


def test_a_large_size_alone_allocates_little() -> None:
    frames = reader()
    assert feed(frames, (100 << 20).to_bytes(4, "big")) == []
    assert len(frames.buffer()) == SMALL_READ_BYTES


@pytest.mark.parametrize("before", [200_000, 3 * FIRST_ALLOCATION_BYTES])
def test_first_allocation_is_limited_by_the_largest_earlier_frame(before: int) -> None:
    frames = reader()
    feed(frames, framed(bytes(before), bytes(80_000)))
    assert feed(frames, (100 << 20).to_bytes(4, "big")) == []
    assert len(frames.buffer()) == min(before, FIRST_ALLOCATION_BYTES)


def test_frame_larger_than_the_first_allocation_is_complete() -> None:
    body = bytes(range(256)) * (5 * FIRST_ALLOCATION_BYTES // 256 + 1)
    assert feed(reader(), framed(body, b"next"), read_bytes=70_000) == [body, b"next"]


@pytest.mark.parametrize("size", [-1, -(1 << 31), 101, (1 << 31) - 1])
def test_a_size_out_of_bounds_is_refused(size: int) -> None:
    with pytest.raises(DecodeError, match=rf"frame of {size} bytes; the limit is 100"):
        feed(reader(max_bytes=100), size.to_bytes(4, "big", signed=True))


@pytest.mark.parametrize(
    ("start", "remark"),
    [
        (b"\x16\x03\x01\x02", r" \(this looks like a TLS handshake; .*security.protocol"),
        (b"GET ", r" \(this looks like an HTTP request\)"),
        (b"\x7f\x00\x00\x00", "$"),
    ],
)
def test_a_client_of_another_protocol_is_recognized_by_its_first_bytes(start: bytes, remark: str) -> None:
    with pytest.raises(DecodeError, match=r"the limit is 100" + remark):
        feed(reader(max_bytes=100), start)


def test_frames_before_a_bad_size_are_delivered() -> None:
    frames = reader(max_bytes=100)
    frames.buffer()[:12] = framed(b"good") + framed(bytes(101))[:4]
    received = iter(frames.received(12))
    assert bytes(next(received)) == b"good"
    with pytest.raises(DecodeError):
        next(received)


def test_only_a_connection_with_large_frames_is_read_in_large_pieces() -> None:
    frames = reader(scratch_bytes=SCRATCH_BYTES)
    assert len(frames.buffer()) == SMALL_READ_BYTES
    feed(frames, framed(bytes(LARGE_FRAME_BYTES)))
    assert len(frames.buffer()) == SCRATCH_BYTES
    feed(frames, framed(bytes(LARGE_FRAME_BYTES), b"small"))
    assert len(frames.buffer()) == SMALL_READ_BYTES


@given(bodies=st.lists(st.binary(max_size=40), min_size=1, max_size=12), handled=st.integers(1, 12))
def test_unhandled_rest_of_a_read_survives_reads_of_other_connections(bodies: list[bytes], handled: int) -> None:
    scratch, memory = memoryview(bytearray(2048)), RequestMemory()
    frames = FrameReader(scratch, 1000, memory)
    data = framed(*bodies) + (50).to_bytes(4, "big") + bytes(20)
    frames.buffer()[: len(data)] = data
    given_now = []
    for frame in frames.received(len(data)):
        given_now.append(bytes(frame))
        if len(given_now) == handled:
            break
    rest = frames.rest()
    scratch[:] = bytes(len(scratch))
    if rest is not None:
        assert memory.used_bytes
        given_now += [bytes(frame) for frame in rest]
    assert given_now == bodies
    assert feed(frames, bytes(30) + framed(b"next")) == [bytes(50), b"next"]
    assert memory.used_bytes == 0


def test_closing_a_connection_releases_its_request_memory() -> None:
    memory = RequestMemory()
    frames = FrameReader(memoryview(bytearray(64)), 1000, memory)
    assert feed(frames, framed(bytes(500))[:100]) == []
    assert memory.used_bytes >= 100
    frames.discard()
    assert memory.used_bytes == 0


def test_reader_takes_what_it_holds_to_another_memory() -> None:
    before, after = RequestMemory(10), RequestMemory(1000)
    before.take(10)
    frames = FrameReader(memoryview(bytearray(64)), 1 << 20, before)
    assert feed(frames, framed(bytes(1000))[:20]) == []
    other = FrameReader(memoryview(bytearray(64)), 1 << 20, before)
    before.wait(frames, frames.grow)
    assert before.let_through is frames
    held_bytes = before.used_bytes - 10
    frames.use(after)
    assert (before.used_bytes, after.used_bytes) == (10, held_bytes)
    before.wait(other, other.grow)
    assert before.let_through is other
    assert feed(frames, bytes(984)) == [bytes(1000)]
    assert (before.used_bytes, after.used_bytes) == (10, 0)


def test_reader_does_not_wait_in_the_memory_that_it_left() -> None:
    before, after, served = RequestMemory(10), RequestMemory(), []
    before.take(10)
    before.wait(FrameReader(memoryview(bytearray(64)), 1 << 20, before), lambda: served.append("first"))
    frames = FrameReader(memoryview(bytearray(64)), 1 << 20, before)
    before.wait(frames, lambda: served.append("second"))
    frames.use(after)
    before.give(10)
    assert served == ["first"]


def test_without_free_memory_a_partial_frame_waits_in_a_buffer_of_its_received_size() -> None:
    memory = RequestMemory(10)
    memory.take(10)
    frames = FrameReader(memoryview(bytearray(64)), 1 << 20, memory)
    assert feed(frames, framed(b"whole", bytes(1000))[:20]) == [b"whole"]
    assert frames.starved
    assert memory.used_bytes == 10 + 7
    frames.grow()
    assert feed(frames, bytes(993)) == [bytes(1000)]


def test_without_free_memory_reads_are_small() -> None:
    memory = RequestMemory(10)
    frames = FrameReader(memoryview(bytearray(SCRATCH_BYTES)), 1 << 20, memory)
    assert len(frames.buffer()) == SMALL_READ_BYTES
    memory.take(10)
    assert len(frames.buffer()) < SMALL_READ_BYTES / 10


def test_admitted_frame_grows_regardless_of_free_memory() -> None:
    memory = RequestMemory(10)
    memory.take(10)
    frames = FrameReader(memoryview(bytearray(64)), 1 << 30, memory)
    feed(frames, framed(bytes(1 << 20))[:20])
    memory.wait(frames, frames.grow)
    assert memory.let_through is frames
    assert feed(frames, bytes((1 << 20) - 16)) == [bytes(1 << 20)]
    assert memory.let_through is None
