"""Searches that may take long, in steps between which others can run.

A search is a generator that returns what it finds. It yields None where it has worked for about a millisecond, and a
function where one is to be called that waits for the disk or unpacks much; what that returns is sent back, what it
raises is thrown in. Whoever runs the search decides where and when; `finish` is for those who can wait for it.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

from protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")

Step: TypeAlias = Callable[[], Any] | None
Search: TypeAlias = Generator[Step, Any, T]


def finish(search: Search[T]) -> T:
    """Return what `search` finds, doing everything at once."""
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


def while_same(search: Search[T], state: Callable[[], object]) -> Search[T]:
    """Search on as long as `state` is what it was at first; else KafkaError NOT_LEADER_OR_FOLLOWER."""
    before = state()

    def check() -> None:
        if state() != before:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the log was truncated or deleted during a search")

    try:
        step = next(search)
        while True:
            try:
                answer = yield step
            except Exception:
                check()
                raise
            check()
            step = search.send(answer)
    except StopIteration as done:
        found: T = done.value
        return found
