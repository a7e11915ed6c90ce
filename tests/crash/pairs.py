"""Power cuts around each rename and sync, in which two changes reached the platter in reverse order.

Most bugs of a log are one missing sync: a change that depends on another one that is not durable yet. So directly
before and after each rename and each sync of a run, every pair of the last `NEAREST` unsynced changes gives a state:
everything before the second of the pair is on the platter, and the second, but not the first. Two more states have
none and all of the unsynced changes. States with equal files and equal promises are checked once.

Deletions in one directory keep their order, as in `power_cut.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, groupby
from random import Random
from typing import Any

from simulation.memory_disk import DirNode, Effect, FileSynced, Mark, MemoryDisk, Renamed, walk
from simulation.power_cut import Change, NameChange, Platter, is_deletion
from tests.crash.states import Cut, Failure, check_state, lived

NEAREST = 6
MOST_STATES = 2000
ACTIONS = 60


def check_states(seed: int, numbers: Iterable[int], tried: Callable[[], None] = lambda: None) -> Iterator[Failure]:
    """Yield the failures among the states of these ascending numbers; call `tried` for each state that exists.

    The states of a workload begin at a multiple of `MOST_STATES`.
    """
    for workload, states in groupby(numbers, lambda number: number // MOST_STATES):
        chosen = {number % MOST_STATES for number in states}
        platter, trace, lives = lived(Random(f"{seed} workload {workload}"), ACTIONS)
        for cut in pairs(platter, trace, Random(f"{seed} pairs {workload}")):
            if cut.state in chosen:
                tried()
                try:
                    check_state(cut, lives, again=False)
                except Exception as error:
                    number = workload * MOST_STATES + cut.state
                    yield Failure(seed, number, f"{type(error).__name__}: {error}", error, "PAIRS=1 ")


def pairs(platter: Platter, trace: list[Effect], random: Random) -> Iterator[Cut]:
    """Yield the states, numbered."""
    marks = [(at, effect.known) for at, effect in enumerate(trace) if isinstance(effect, Mark)]
    changes: list[Change] = []
    seen: set[int] = set()
    number = passed = 0
    before: Any = None
    for point, (effect, following) in enumerate(zip([None, *trace], [*trace, None], strict=True)):
        if effect is not None:
            platter.follow(effect)
        if not isinstance(effect, Mark | FileSynced | None):
            changes.append(effect)  # type: ignore[arg-type]
        if not isinstance(effect, Renamed | FileSynced) and not isinstance(following, Renamed | FileSynced):
            continue
        while passed < len(marks) and marks[passed][0] < point:
            before = marks[passed][1]
            passed += 1
        after = marks[passed][1] if passed < len(marks) else before
        unsynced = platter.unsynced()
        changes = [change for change in changes if id(change) in unsynced]
        for kept in reordered(changes):
            disk = platter.cut_with(kept)
            digest = hash((passed, *contents(disk)))
            if digest not in seen:
                seen.add(digest)
                yield Cut(disk, before, after, random, number)
                number += 1


def reordered(changes: list[Change]) -> Iterator[list[Change]]:
    """Yield the subsets of the unsynced `changes` that reach the platter."""
    yield []
    yield changes
    first = max(0, len(changes) - NEAREST)
    for lost, last in combinations(range(first, len(changes)), 2):
        if not same_directory_deletions(changes[lost], changes[last]):
            yield [*changes[:lost], *changes[lost + 1 : last + 1]]


def same_directory_deletions(one: Change, other: Change) -> bool:
    names = isinstance(one, NameChange) and isinstance(other, NameChange) and one.parent is other.parent
    return names and is_deletion(one) and is_deletion(other)


def contents(disk: MemoryDisk) -> list[tuple[str, bytes | None]]:
    """Return every path, with the content of files."""
    return [(path, None if isinstance(node, DirNode) else bytes(node.data)) for path, node in walk(disk.root)]
