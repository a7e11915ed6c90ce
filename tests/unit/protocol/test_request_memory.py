from protocol.request_memory import RequestMemory


class Reader:
    """Stand-in for a `FrameReader` with a partly received frame."""

    unfinished = True


def test_released_memory_is_not_counted_as_used() -> None:
    memory = RequestMemory(100)
    memory.take(70)
    memory.take(30)
    assert memory.full
    memory.give(1)
    assert not memory.full
    assert memory.used_bytes == 99  # type: ignore[unreachable]  # a call has changed it


def test_request_memory_without_a_limit_is_never_full() -> None:
    memory = RequestMemory()
    memory.take(1 << 50)
    assert not memory.full


def test_waiting_reader_resumes_at_once_if_memory_is_free() -> None:
    memory, went_on = RequestMemory(100), []
    memory.wait(Reader(), lambda: went_on.append("a"))
    assert went_on == ["a"]


def test_one_reader_is_admitted_over_the_limit_and_others_resume_in_order() -> None:
    memory, went_on = RequestMemory(100), []
    memory.take(100)
    readers = [Reader() for _ in range(3)]
    for name, reader in zip("abc", readers, strict=True):
        memory.wait(reader, lambda name=name: went_on.append(name))  # type: ignore[misc]  # a lambda with a default has no inferred type
    assert went_on == ["a"]
    memory.give(0)
    assert went_on == ["a"]
    readers[0].unfinished = False
    memory.give(0)
    assert went_on == ["a", "b"]
    assert memory.let_through is readers[1]


def test_waiting_readers_resume_until_the_memory_is_used() -> None:
    memory, went_on = RequestMemory(100), []
    memory.take(200)

    def take(name: str) -> None:
        went_on.append(name)
        memory.take(40)

    for name in "abcde":
        memory.wait(Reader(), lambda name=name: take(name))  # type: ignore[misc]  # a lambda with a default has no inferred type
    assert went_on == ["a"]  # admitted over the limit
    memory.give(200)
    assert went_on == ["a", "b", "c"]
    assert memory.used_bytes == 120


def test_closed_reader_does_not_resume() -> None:
    memory, went_on = RequestMemory(100), []
    memory.take(100)
    first, second = Reader(), Reader()
    memory.wait(first, lambda: went_on.append("first"))
    memory.wait(second, lambda: went_on.append("second"))
    memory.forget(second)
    memory.give(100)
    assert went_on == ["first"]
