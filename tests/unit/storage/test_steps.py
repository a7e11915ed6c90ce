"""Tests of searches that run in steps."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode, KafkaError
from storage.steps import Search, finish, while_same


def searching(finds: str = "found") -> Search[str]:
    yield None
    answer = yield lambda: finds
    yield None
    return f"{answer} it"


def test_finishing_takes_every_step_and_calls_what_is_to_be_called() -> None:
    assert finish(searching()) == "found it"


def test_finishing_throws_what_a_step_raises_into_the_search() -> None:
    def handling() -> Search[str]:
        try:
            yield lambda: 1 // 0
        except ZeroDivisionError:
            return "handled"
        return "not raised"

    assert finish(handling()) == "handled"


def test_a_search_goes_on_while_nothing_changes() -> None:
    assert finish(while_same(searching(), lambda: 1)) == "found it"


def test_a_search_ends_when_something_has_changed() -> None:
    state = ["before"]
    search = while_same(searching(), lambda: state[0])
    next(search)
    state[0] = "after"
    with pytest.raises(KafkaError) as changed:
        next(search)
    assert changed.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("changes", "raised"), [(True, KafkaError), (False, OSError)])
def test_what_a_change_has_broken_is_not_blamed_on_the_disk(changes: bool, raised: type[Exception]) -> None:
    state = [0]
    search = while_same(searching(), lambda: state[0])
    next(search)
    next(search)
    state[0] += changes
    with pytest.raises(raised):
        search.throw(OSError("no such file"))


def test_a_search_given_up_ends_quietly() -> None:
    state = [0]
    search = while_same(searching(), lambda: state[0])
    next(search)
    state[0] = 1
    search.close()
