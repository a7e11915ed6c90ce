"""Planted bugs: patches of the product that a checker has to find, as a test of the checker.

A bug counts as found only when the invariant that it names is broken (`Finding.invariant`). Any other failure does not
count: a patch that no longer fits the product raises TypeError, and shows nothing. Every patched function counts its
calls, and a patch without a call is `NeverCalledError`: the product no longer runs what was patched.

The recorded seed alone replays a bug (`replay`), and the same run without the bug has to find nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import pytest


class Finding(AssertionError):  # noqa: N818 - what a checker looks for
    """A broken invariant."""

    def __init__(self, invariant: Enum, problem: str) -> None:
        super().__init__(problem)
        self.invariant = invariant


class NeverCalledError(Exception):
    """A patch that no call reached; not an AssertionError, so that no checker takes it for a finding."""


class Planter:
    """Patches the product for the length of a run, and counts the calls of each patch."""

    def __init__(self, patch: pytest.MonkeyPatch, *, plants: bool = True) -> None:
        self._patch = patch
        self._plants = plants
        self.calls: dict[str, int] = {}
        """Number of calls by the name of what was patched."""
        self.tuned: list[str] = []
        """The constants of the workload that were replaced, and their values."""

    def setattr(self, target: Any, name: str, value: Any) -> None:
        """Replace a function, method or property of `target`; AttributeError if there is none."""
        if not self._plants:
            return
        patched = f"{target.__name__}.{name}"
        self.calls[patched] = 0
        if isinstance(value, property):
            assert value.fget is not None
            value = property(self._counted(patched, value.fget))
        else:
            value = self._counted(patched, value)
        self._patch.setattr(target, name, value)

    def tune(self, target: Any, name: str, value: Any) -> None:
        """Replace a constant of a test's workload, so that a rare bug shows in fewer states."""
        self.tuned.append(f"{target.__name__}.{name}={value}")
        self._patch.setattr(target, name, value)

    def _counted(self, patched: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def counting(*args: Any, **options: Any) -> Any:
            self.calls[patched] += 1
            return function(*args, **options)

        return counting

    def require_calls(self) -> None:
        """Raise `NeverCalledError` if a patch was never called."""
        never = [patched for patched, calls in self.calls.items() if not calls]
        if never or not self.calls:
            raise NeverCalledError(f"never called: {', '.join(never) or 'nothing was patched'}")


Plant: TypeAlias = Callable[[Planter], None]


class Bug(NamedTuple):
    """A planted bug, and where it was found last."""

    plant: Plant
    invariant: Enum
    """The only one whose violation counts as finding the bug."""
    seed: int
    """The one to try first; of the crash checker's bugs, the number of a state."""
    neighbours: int
    """How many of the seeds `nearby` found it when that was recorded."""

    @property
    def name(self) -> str:
        return self.plant.__name__

    @property
    def nearby(self) -> range:
        """Return the block of seeds that `seed` is one of."""
        first = self.seed - self.seed % NEARBY_SEEDS
        return range(first, first + NEARBY_SEEDS)

    @property
    def mistake(self) -> str:
        """Return what is wrong: the first line of the plant's docstring."""
        return (self.plant.__doc__ or "").partition("\n")[0]


NEARBY_SEEDS = 25


OutcomeOf: TypeAlias = Callable[[Bug, int], BaseException | None]


class Outcome(NamedTuple):
    """What a seed came to with a bug planted."""

    seed: int
    found: bool
    what: str


@contextmanager
def planted(plant: Plant) -> Iterator[Planter]:
    """Patch the product as `plant` does, until the end of the context."""
    import pytest  # half of what the simulator imports at a start, and needed here only

    with pytest.MonkeyPatch.context() as patch:
        planter = Planter(patch)
        plant(planter)
        yield planter


@contextmanager
def unplanted(plant: Plant) -> Iterator[Planter]:
    """Tune the workload as `plant` does, and leave the product as it is: a control run."""
    import pytest

    with pytest.MonkeyPatch.context() as patch:
        planter = Planter(patch, plants=False)
        plant(planter)
        yield planter


def breaks(error: BaseException | None, invariant: Enum) -> bool:
    """Return whether `error` is a violation of `invariant`."""
    return isinstance(error, Finding) and error.invariant is invariant


def name_of(error: BaseException | None) -> str:
    """Return the name of the invariant that is broken, or the type of another error."""
    return error.invariant.name if isinstance(error, Finding) else type(error).__name__


def outcomes(bug: Bug, outcome_of: OutcomeOf, seeds: Iterable[int]) -> Iterator[Outcome]:
    """Yield what each seed comes to with a bug; a run that does not reach what is patched finds nothing."""
    for seed in seeds:
        try:
            error = outcome_of(bug, seed)
        except NeverCalledError as never:
            yield Outcome(seed, False, str(never))
        else:
            yield Outcome(seed, breaks(error, bug.invariant), "nothing" if error is None else name_of(error))


def replay(bug: Bug, outcome_of: OutcomeOf, control_of: OutcomeOf) -> str:
    """Return why the recorded seed of a bug does not show it; nothing if it finds the bug, and nothing without it."""
    [recorded] = outcomes(bug, outcome_of, [bug.seed])
    if recorded.found:
        error = control_of(bug, bug.seed)
        return "" if error is None else f"{bug.name}: {bug.seed} finds {name_of(error)} without the bug, too: {error}"
    others = outcomes(bug, outcome_of, (seed for seed in bug.nearby if seed != bug.seed))
    finder = next((other.seed for other in others if other.found), None)
    advice = f"none of {bug.nearby} does" if finder is None else f"{finder} does: record it"
    return f"{bug.name}: {bug.seed} does not break {bug.invariant.name}, but comes to {recorded.what}; {advice}"


def survey(bug: Bug, outcome_of: OutcomeOf, seeds: Iterable[int], most: int) -> str:
    """Return a line on which of the seeds find a bug, of which `most` are enough, and what the others come to."""
    found, came_to = list[int](), Counter[str]()
    for outcome in outcomes(bug, outcome_of, seeds):
        came_to[outcome.what] += 1
        if outcome.found:
            found.append(outcome.seed)
            if len(found) == most:
                break
    return f"{bug.name}: found by {len(found)}, {found}: {dict(came_to.most_common())}"
