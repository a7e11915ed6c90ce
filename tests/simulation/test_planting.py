"""A planted bug is found if its invariant is broken and every patched function was called."""

from __future__ import annotations

from enum import Enum

import pytest

from simulation.violation import InvariantBroken
from tests.planting import Bug, NeverCalledError, Planter, breaks, name_of, planted, replay, survey, unplanted


class Rule(Enum):
    SUM = "sums are right"
    TEXT = "texts are right"


class Product:
    @property
    def first(self) -> int:
        return 1

    def add(self, other: int) -> int:
        return self.first + other

    def text(self) -> str:
        return "1"


def sum_is_too_large(plant: Planter) -> None:
    """A sum is too large by one."""
    plant.setattr(Product, "add", lambda self, other: self.first + other + 1)


def first_is_two(plant: Planter) -> None:
    plant.setattr(Product, "first", property(lambda self: 2))


def patch_does_not_fit(plant: Planter) -> None:
    plant.setattr(Product, "add", lambda self: 0)


def patches_missing_name(plant: Planter) -> None:
    plant.setattr(Product, "subtract", lambda self, other: 0)


def check() -> BaseException | None:
    """Return the checker's finding."""
    try:
        if Product().add(1) != 2:
            return InvariantBroken(Rule.SUM, "1 + 1 is not 2")
    except TypeError as error:
        return error
    return None


@pytest.mark.parametrize("plant", [sum_is_too_large, first_is_two])
def test_bug_is_found_by_the_invariant_that_it_names(plant: object) -> None:
    with planted(plant) as planter:  # type: ignore[arg-type]
        error = check()
    planter.require_calls()
    assert breaks(error, Rule.SUM)
    assert not breaks(error, Rule.TEXT)
    assert name_of(error) == "SUM"
    assert check() is None


def test_patch_that_does_not_fit_product_finds_nothing() -> None:
    with planted(patch_does_not_fit) as planter:
        error = check()
    planter.require_calls()
    assert isinstance(error, TypeError)
    assert not breaks(error, Rule.SUM)
    assert name_of(error) == "TypeError"


def test_patch_without_a_call_is_an_error() -> None:
    with planted(sum_is_too_large) as planter:
        Product().text()
    with pytest.raises(NeverCalledError, match=r"never called: Product\.add"):
        planter.require_calls()


def test_bug_that_patches_nothing_is_an_error() -> None:
    with planted(lambda plant: None) as planter, pytest.raises(NeverCalledError, match="nothing was patched"):
        planter.require_calls()


def test_patch_of_missing_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="subtract"), planted(patches_missing_name):
        pass


def clean(bug: Bug, seed: int) -> BaseException | None:
    return None


def test_only_recorded_seed_replays_bug_and_failure_names_another_seed() -> None:
    tried = []

    def outcome_of(bug: Bug, seed: int) -> BaseException | None:
        tried.append(seed)
        return InvariantBroken(Rule.SUM, "") if seed == 26 else TypeError()

    assert replay(Bug(sum_is_too_large, Rule.SUM, 26, 1), outcome_of, clean) == ""
    assert tried == [26]
    stale = replay(Bug(sum_is_too_large, Rule.SUM, 30, 1), outcome_of, clean)
    assert stale == "sum_is_too_large: 30 does not break SUM, but comes to TypeError; 26 does: record it"
    assert tried[1:] == [30, 25, 26]
    assert "none of range(0, 25) does" in replay(Bug(sum_is_too_large, Rule.SUM, 3, 1), outcome_of, clean)
    assert tried[4:] == [3, 0, 1, 2, *range(4, 25)]
    assert "TEXT" in replay(Bug(sum_is_too_large, Rule.TEXT, 26, 1), outcome_of, clean)


def test_seed_with_finding_without_bug_is_rejected() -> None:
    def broken(bug: Bug, seed: int) -> BaseException | None:
        return InvariantBroken(Rule.SUM, "1 + 1 is 3")

    shown = replay(Bug(sum_is_too_large, Rule.SUM, 1, 1), broken, broken)
    assert shown == "sum_is_too_large: 1 finds SUM without the bug, too: 1 + 1 is 3"


def test_control_run_has_workload_of_bug_without_bug() -> None:
    workload = type("Workload", (), {"actions": 1})

    def plant(planter: Planter) -> None:
        sum_is_too_large(planter)
        planter.tune(workload, "actions", 2)

    with unplanted(plant) as planter:
        assert check() is None
        assert workload.actions == 2  # type: ignore[attr-defined]  # of a type that is made here
        assert planter.tuned == ["Workload.actions=2"]
    assert workload.actions == 1  # type: ignore[attr-defined]


def test_run_that_does_not_call_patch_finds_nothing() -> None:
    def outcome_of(bug: Bug, seed: int) -> BaseException | None:
        if seed:
            raise NeverCalledError("never called: Product.add")
        return InvariantBroken(Rule.SUM, "")

    line = survey(Bug(sum_is_too_large, Rule.SUM, 1, 1), outcome_of, range(3), most=0)
    assert line == "sum_is_too_large: found by 1, [0]: {'never called: Product.add': 2, 'SUM': 1}"


def test_bug_is_described_by_docstring_of_its_plant() -> None:
    bug = Bug(sum_is_too_large, Rule.SUM, 1, 25)
    assert (bug.name, bug.mistake) == ("sum_is_too_large", "A sum is too large by one.")
