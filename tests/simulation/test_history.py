"""What the simulator expects of the generations of a group."""

from __future__ import annotations

import pytest

from simulation.violation import Invariant, Violation
from tests.simulation.history import History
from tests.simulation.simulation import Simulation

GROUP = "members"


@pytest.fixture(name="history")
def history_of_fsync_flush() -> History:
    """One generation is known of a group with an offset."""
    history = Simulation(1, 0).history
    history.always = False
    history.group(GROUP).led(1, "first")
    return history


def test_a_group_whose_offset_a_power_cut_took_may_be_deleted_and_begin_anew(history: History) -> None:
    history.power_cut(set())
    history.group(GROUP).led(1, "second")
    history.group_gone(GROUP)
    history.group(GROUP).led(1, "third")


def test_a_group_that_is_not_deleted_has_one_leader_in_a_generation(history: History) -> None:
    history.power_cut(set())
    history.group(GROUP).led(1, "second")
    assert_one_leader(history)


@pytest.mark.parametrize("always", [True, False])
def test_a_group_with_an_offset_does_not_begin_anew(history: History, always: bool) -> None:
    history.always = always
    if always:
        history.power_cut(set())
    history.group_gone(GROUP)
    assert_one_leader(history)


def test_a_group_that_has_committed_since_the_power_cut_does_not_begin_anew(history: History) -> None:
    history.power_cut(set())
    known = history.group(GROUP)
    known.led(1, "second")
    known.committed(1, 1)
    history.group_gone(GROUP)
    assert_one_leader(history)


def test_a_group_of_which_nothing_is_known_is_not_forgotten_again(history: History) -> None:
    history.power_cut(set())
    known = history.group(GROUP)
    history.group_gone(GROUP)
    assert history.group(GROUP) is known


def assert_one_leader(history: History) -> None:
    with pytest.raises(Violation) as found:
        history.group(GROUP).led(1, "another")
    assert found.value.invariant is Invariant.ONE_GROUP_LEADER
