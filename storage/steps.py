"""Cooperative steps: searches that may take long, as generators between whose steps other work runs.

A search returns its result. It yields None after about 1 ms of work, or a function that the caller must call because it
waits for the disk or decompresses much; its result is sent back, its exception thrown in. The caller decides where and
when each step runs; `finish` runs all of them at once.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

from protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")

Step: TypeAlias = Callable[[], Any] | None
Steps: TypeAlias = Generator[Step, Any, T]


def finish(search: Steps[T]) -> T:
    """Return the result of `search`; run all of its steps."""
    try:
        step = next(search)
        while True:
            try:
                answer = None if step is None else step()
            except Exception as error:
                step = search.throw(error)
            else:
                step = search.send(answer)
    except StopIteration as done:
        found: T = done.value
        return found


def while_unchanged(search: Steps[T], state: Callable[[], object]) -> Steps[T]:
    """Run `search` while `state` returns its first value; then raise NOT_LEADER_OR_FOLLOWER."""
    before = state()

    def check() -> None:
        if state() != before:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the log was truncated or deleted during a search")

    return checked(search, check)


def checked(steps: Steps[T], check: Callable[[], None]) -> Steps[T]:
    """Run `steps`, and call `check` before each step but the first. What that raises ends them."""
    try:
        step = next(steps)
        while True:
            try:
                answer = yield step
            except Exception as error:
                check()
                step = steps.throw(error)
            else:
                check()
                step = steps.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result
