"""Tests of searches that run in steps."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.steps import Steps, finish, while_unchanged


def searching(finds: str = "found") -> Steps[str]:
    yield None
    answer = yield lambda: finds
    yield None
    return f"{answer} it"


def test_finish_runs_every_step_and_its_calls() -> None:
    assert finish(searching()) == "found it"


def test_finish_throws_an_error_of_a_call_into_the_search() -> None:
    def handling() -> Steps[str]:
        try:
            yield lambda: 1 // 0
        except ZeroDivisionError:
            return "handled"
        return "not raised"

    assert finish(handling()) == "handled"


def test_search_continues_while_nothing_changes() -> None:
    assert finish(while_unchanged(searching(), lambda: 1)) == "found it"


def test_search_ends_after_a_change() -> None:
    state = ["before"]
    search = while_unchanged(searching(), lambda: state[0])
    next(search)
    state[0] = "after"
    with pytest.raises(KafkaError) as changed:
        next(search)
    assert changed.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("changes", "raised"), [(True, KafkaError), (False, OSError)])
def test_error_caused_by_a_change_is_no_disk_error(changes: bool, raised: type[Exception]) -> None:
    state = [0]
    search = while_unchanged(searching(), lambda: state[0])
    next(search)
    next(search)
    state[0] += changes
    with pytest.raises(raised):
        search.throw(OSError("no such file"))


def test_cancelled_search_ends_without_error() -> None:
    state = [0]
    search = while_unchanged(searching(), lambda: state[0])
    next(search)
    state[0] = 1
    search.close()
