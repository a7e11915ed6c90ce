"""A test of the tests: mistakes that a log could make are found in the states that `make test` tries.

First where each was found last, then in the states nearby, then in all.
"""

from __future__ import annotations

import os

import pytest

from tests.crash import bugs, metadata_bugs, metadata_states, states
from tests.planting import Bug

STATES = int(os.environ.get("BARNABAS_TEST_STATES", "5000"))
FULL = "BARNABAS_TEST_STATES" in os.environ


def find(bug: Bug, check: bugs.Check, most_states: int) -> bool:
    tries = [range(most_states)] if FULL else [bug.nearby, range(most_states)]
    return any(bugs.finds(bug, numbers, check) for numbers in tries)


@pytest.mark.parametrize("bug", bugs.BUGS, ids=lambda bug: bug.name)
def test_a_planted_fault_is_found_by_the_invariant_that_it_breaks(bug: Bug) -> None:
    assert find(bug, states.check_states, STATES), f"python -m {bugs.__name__} {bug.name}"


@pytest.mark.parametrize("bug", metadata_bugs.BUGS, ids=lambda bug: bug.name)
def test_a_planted_fault_of_the_metadata_log_is_found(bug: Bug) -> None:
    assert find(bug, metadata_states.check_states, STATES // 10), f"python -m {bugs.__name__} {bug.name}"
