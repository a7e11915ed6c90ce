"""Outcomes of handlers, which may come later, and what a guard makes of their responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from broker.runtime.deferred import Deferred

R = TypeVar("R")


def complete(outcome: Any, finish: Callable[[Any], R]) -> R | Deferred[R] | Awaitable[R]:
    """Return `finish(response)` for the outcome of a handler: now, or later if the response comes later.

    An exception of the outcome is raised, or becomes that of the result.
    """
    if isinstance(outcome, Deferred):
        return outcome.then(lambda response: finish(_result(response)))
    if isinstance(outcome, Awaitable):
        return _complete_later(outcome, finish)
    return finish(outcome)


async def _complete_later(outcome: Awaitable[Any], finish: Callable[[Any], R]) -> R:
    return finish(await outcome)


def _result(response: Any) -> Any:
    if isinstance(response, BaseException):
        raise response
    return response
