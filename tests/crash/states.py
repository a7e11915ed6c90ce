"""Numbered states after a power cut: each is generated, recovered and checked.

    seed + state // STATES_A_WORKLOAD    the workload
    seed + state                         the point of the cut, and the surviving part of the unsynced changes

So one line replays a state. After recovery, every eighth state continues with another workload and is cut again,
possibly during its recovery. Each recovered state is recovered once more from the same bytes, which must not change
any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from random import Random
from typing import Any, NamedTuple

from simulation.memory_disk import Effect, Mark, MemoryDisk
from simulation.power_cut import Platter
from storage.log_manager import LogManager
from tests.crash.broken import Broken, Invariant, start_not_refused
from tests.crash.checks import batches_of, check_log
from tests.crash.promises import Promise, Version, promised
from tests.crash.workload import DIRECTORIES, INTERVAL_BYTES, NOW_MS, Life, Workload, start

STATES_A_WORKLOAD = 40
ACTIONS = 150
ACTIONS_AFTER = 25


class Failure(NamedTuple):
    """A state that broke an invariant."""

    seed: int
    state: int
    problem: str
    error: Exception
    workload: str = ""

    def __str__(self) -> str:
        return f"make crash {self.workload}SEED={self.seed} STATE={self.state}   # {self.problem}"


class Cut(NamedTuple):
    """A disk after a power cut, and what the workload knew before and after it: None before its first mark."""

    disk: MemoryDisk
    before: Any
    after: Any
    random: Random
    state: int


def check_states(seed: int, numbers: Iterable[int]) -> Iterator[Failure]:
    """Yield the failures among the states of these ascending numbers."""
    for workload, states in groupby(numbers, lambda number: number // STATES_A_WORKLOAD):
        yield from _check_workload(seed, workload, list(states))


def _check_workload(seed: int, workload: int, states: list[int]) -> Iterator[Failure]:
    try:
        platter, trace, lives = lived(Random(f"{seed} workload {workload}"), ACTIONS)
    except Exception as error:
        yield Failure(seed, states[0], f"in its workload: {type(error).__name__}: {error}", error)
        return
    randoms = [Random(f"{seed} state {state}") for state in states]
    for cut in power_cuts(platter, trace, randoms, states):
        try:
            check_state(cut, lives, again=cut.state % 8 == 0)
        except Exception as error:
            yield Failure(seed, cut.state, f"{type(error).__name__}: {error}", error)


def lived(random: Random, actions: int) -> tuple[Platter, list[Effect], dict[str, Life]]:
    """Run a workload on an empty disk; return the platter as of its beginning, the trace, and the model of each log."""
    trace: list[Effect] = []
    disk = MemoryDisk(trace=trace)
    for directory in DIRECTORIES:
        disk.make_dirs(directory)
    platter = Platter(disk)
    life = Workload(disk, random)
    life.run(actions)
    return platter, trace, life.lives


def power_cuts(platter: Platter, trace: list[Effect], randoms: list[Random], states: list[int]) -> Iterator[Cut]:
    """Yield the disk after power cuts at as many random points of the trace, in trace order."""
    points = sorted(
        (random.randrange(len(trace) + 1), state, random) for random, state in zip(randoms, states, strict=True)
    )
    marks = [(at, effect.known) for at, effect in enumerate(trace) if isinstance(effect, Mark)]
    done = number = 0
    before: Any = None
    for point, state, random in points:
        for effect in trace[done:point]:
            platter.follow(effect)
        done = point
        while number < len(marks) and marks[number][0] < point:
            before = marks[number][1]
            number += 1
        after = marks[number][1] if number < len(marks) else before
        yield Cut(platter.cut(random), before, after, random, state)


def check_state(cut: Cut, lives: dict[str, Life], *, again: bool) -> None:
    """Recover a disk twice, and with `again` run another workload and cut once more; raise `Broken` on a violation."""
    disk, random = cut.disk, cut.random
    promises = promised(cut.before or {}, cut.after or {})
    if again:
        disk.trace = []
        platter = Platter(disk)
    manager = recover(disk, random)
    check_all(manager, disk, promises)
    if any(directory.clean for directory in manager.directories):
        recover(disk, random)  # the first start was clean: run a recovery
    recovered = disk.files()
    recover(disk, random)
    check_unchanged(recovered, disk.files())
    # An empty log alone knows its former producers, so the model cannot continue from one.
    if again and all(log.size_bytes for log in manager):
        trace = disk.trace or []
        lives = lives_after(disk, manager, promises, lives)
        trace.insert(0, Mark({name: life.promise() for name, life in lives.items()}))
        second = Workload(disk, random, lives)
        second.run(ACTIONS_AFTER)
        for last in power_cuts(platter, trace, [random], [0]):
            check_state(last, lives, again=False)


def recover(disk: MemoryDisk, random: Random) -> LogManager:
    """Open the directories as the next start would."""
    with start_not_refused():
        return start(disk, lambda: NOW_MS, random)


def check_all(manager: LogManager, disk: MemoryDisk, promises: dict[str, Promise]) -> None:
    if manager.problems and any("cannot" in problem or "failed" in problem for problem in manager.problems):
        raise Broken(Invariant.LOGS_OPEN, f"a log was not opened: {manager.problems}")
    for name, promise in promises.items():
        check_log(disk, name, manager.get(name, 0), promise, INTERVAL_BYTES)


def lives_after(
    disk: MemoryDisk, manager: LogManager, promises: dict[str, Promise], former_lives: dict[str, Life]
) -> dict[str, Life]:
    """Return the models to continue with: all that was found is durable, since it was read from the platter."""
    lives = {}
    for log in manager:
        former = former_lives[log.topic]
        life = lives[log.topic] = Life(former.config, log.topic_id)
        found, version = batches_of(disk, log, promises[log.topic])
        written = [batch for batch in version.written if batch.next_offset <= log.log_end_offset] if version else found
        life.versions = [Version(log.log_end_offset if not written else written[0].base_offset, found, written)]
        life.durable_end, life.start, life.created_durably = log.log_end_offset, log.log_start_offset, True
        life.cleaned = min(promises[log.topic].cleaned, log.log_end_offset)
        life.decided = min(promises[log.topic].decided, log.log_end_offset)
    return lives


def check_unchanged(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    """Raise `Broken` if another start changed a file."""
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    # A start deletes producer snapshots by the state that the previous one left; their content is checked already.
    changed = [path for path in changed if not path.endswith(".snapshot")]
    if changed:
        raise Broken(Invariant.RECOVERY_IS_STABLE, f"another recovery changed {changed}")
