"""Planted bugs: patches of the product that a checker must find, as a test of the checker.

A bug counts as found only when its invariant is broken (`InvariantBroken`). Any other failure does not count: a patch
that no longer fits the product raises TypeError. Every patched function counts its calls; a patch without a call raises
`NeverCalledError`, since the product no longer runs the patched code.

The recorded seed alone replays a bug (`replay`); the same run without the bug must find nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from simulation.violation import InvariantBroken

if TYPE_CHECKING:
    import pytest


class NeverCalledError(Exception):
    """A patch that was never called; not an AssertionError, so that it does not count as a finding."""


class Planter:
    """Patches of the product for one run, with the number of calls of each."""

    def __init__(self, patch: pytest.MonkeyPatch, *, plants: bool = True) -> None:
        self._patch = patch
        self._plants = plants
        self.calls: dict[str, int] = {}
        """Number of calls by the name of the patched function."""
        self.tuned: list[str] = []
        """The replaced constants of the workload, and their new values."""

    def setattr(self, target: Any, name: str, value: Any) -> None:
        """Replace a function, method or property of `target`; raise AttributeError if it is missing."""
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
        """Replace a constant of a test's workload, so that fewer states show a rare bug."""
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
    """A planted bug, and the seed that found it last."""

    plant: Plant
    invariant: Enum
    """The invariant whose violation counts as finding the bug."""
    seed: int
    """The seed to try first; for the crash checker, the number of a state."""
    neighbours: int
    """Number of the seeds `nearby` that found it when recorded."""

    @property
    def name(self) -> str:
        return self.plant.__name__

    @property
    def nearby(self) -> range:
        """Return the block of seeds that contains `seed`."""
        first = self.seed - self.seed % NEARBY_SEEDS
        return range(first, first + NEARBY_SEEDS)

    @property
    def mistake(self) -> str:
        """Return the description of the bug: the first line of the plant's docstring."""
        return (self.plant.__doc__ or "").partition("\n")[0]


NEARBY_SEEDS = 25


OutcomeOf: TypeAlias = Callable[[Bug, int], BaseException | None]


class Outcome(NamedTuple):
    """The result of a seed with a planted bug."""

    seed: int
    found: bool
    what: str


@contextmanager
def planted(plant: Plant) -> Iterator[Planter]:
    """Apply `plant` to the product until the end of the context."""
    import pytest  # half of the simulator's import time, and needed only here

    with pytest.MonkeyPatch.context() as patch:
        planter = Planter(patch)
        plant(planter)
        yield planter


@contextmanager
def unplanted(plant: Plant) -> Iterator[Planter]:
    """Tune the workload as `plant` does, without patching the product: a control run."""
    import pytest

    with pytest.MonkeyPatch.context() as patch:
        planter = Planter(patch, plants=False)
        plant(planter)
        yield planter


def breaks(error: BaseException | None, invariant: Enum) -> bool:
    """Return whether `error` is a violation of `invariant`."""
    return isinstance(error, InvariantBroken) and error.invariant is invariant


def name_of(error: BaseException | None) -> str:
    """Return the name of the broken invariant, or the type of another error."""
    return error.invariant.name if isinstance(error, InvariantBroken) else type(error).__name__


def outcomes(bug: Bug, outcome_of: OutcomeOf, seeds: Iterable[int]) -> Iterator[Outcome]:
    """Yield the outcome of each seed with a bug; a run that does not reach the patched code finds nothing."""
    for seed in seeds:
        try:
            error = outcome_of(bug, seed)
        except NeverCalledError as never:
            yield Outcome(seed, False, str(never))
        else:
            yield Outcome(seed, breaks(error, bug.invariant), "nothing" if error is None else name_of(error))


def replay(bug: Bug, outcome_of: OutcomeOf, control_of: OutcomeOf) -> str:
    """Return why the recorded seed fails; '' if it finds the bug, and finds nothing without it."""
    [recorded] = outcomes(bug, outcome_of, [bug.seed])
    if recorded.found:
        error = control_of(bug, bug.seed)
        return "" if error is None else f"{bug.name}: {bug.seed} finds {name_of(error)} without the bug, too: {error}"
    others = outcomes(bug, outcome_of, (seed for seed in bug.nearby if seed != bug.seed))
    finder = next((other.seed for other in others if other.found), None)
    advice = f"none of {bug.nearby} does" if finder is None else f"{finder} does: record it"
    return f"{bug.name}: {bug.seed} does not break {bug.invariant.name}, but comes to {recorded.what}; {advice}"


def survey(bug: Bug, outcome_of: OutcomeOf, seeds: Iterable[int], most: int) -> str:
    """Return a line with the seeds that find a bug, at most `most`, and the outcomes of the others."""
    found, came_to = list[int](), Counter[str]()
    for outcome in outcomes(bug, outcome_of, seeds):
        came_to[outcome.what] += 1
        if outcome.found:
            found.append(outcome.seed)
            if len(found) == most:
                break
    return f"{bug.name}: found by {len(found)}, {found}: {dict(came_to.most_common())}"
