"""Cooperative steps: work that may take long, as a generator that lets other work run between its steps.

It yields None after about 1 ms of work, or a function that waits for the disk or decompresses much: the caller calls
it, usually in a thread, and sends its result or throws its exception into the generator. The generator returns the
result of the work. `finish` runs all steps at once.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

from protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")

Step: TypeAlias = Callable[[], object] | None
Steps: TypeAlias = Generator[Step, Any, T]


def finish(steps: Steps[T]) -> T:
    """Run all steps, and return the result."""
    try:
        step = next(steps)
        while True:
            try:
                answer = None if step is None else step()
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


def while_unchanged(steps: Steps[T], state: Callable[[], object]) -> Steps[T]:
    """Run `steps` as long as `state` returns the same value; raise NOT_LEADER_OR_FOLLOWER once it differs."""
    before = state()

    def check() -> None:
        if state() != before:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the log was truncated or deleted during a search")

    return checked(steps, check)


def checked(steps: Steps[T], check: Callable[[], None]) -> Steps[T]:
    """Run `steps`, with a call of `check` before each step except the first; an exception of it ends them."""
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
