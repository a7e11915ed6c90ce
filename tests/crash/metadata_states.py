"""Power-cut states of the metadata log, numbered and generated like those of `states.py`.

Each is opened, compared with what was known, and opened again, which must not change a byte. Every eighth continues
with another workload and a second power cut. Every fourth workload mostly restarts, so many cuts hit starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from random import Random

from broker.metadata.metadata_log import MetadataLog
from simulation.memory_disk import MemoryDisk
from simulation.power_cut import Platter
from storage.log_directory import LogDirectory
from tests.crash import metadata_workload as workload
from tests.crash.broken import start_not_refused
from tests.crash.states import STATES_A_WORKLOAD, Cut, Failure, check_unchanged, power_cuts

ACTIONS = 60
ACTIONS_AFTER = 15


def check_states(seed: int, numbers: Iterable[int]) -> Iterator[Failure]:
    """Yield the failures among the states of these ascending numbers."""
    for number, states in groupby(numbers, lambda number: number // STATES_A_WORKLOAD):
        yield from _check_workload(seed, number, list(states))


def _check_workload(seed: int, number: int, states: list[int]) -> Iterator[Failure]:
    disk = MemoryDisk(trace=[])
    disk.make_dirs(workload.DIRECTORY)
    platter = Platter(disk)
    try:
        life = workload.Workload(disk, Random(f"{seed} metadata workload {number}"))
        life.run(ACTIONS if number % 4 else 1)
    except Exception as error:
        yield Failure(seed, states[0], f"in its workload: {type(error).__name__}: {error}", error, "METADATA=1 ")
        return
    randoms = [Random(f"{seed} metadata state {state}") for state in states]
    for cut in power_cuts(platter, disk.trace or [], randoms, states):
        try:
            _check_state(cut, life.contents, again=cut.state % 8 == 0)
        except Exception as error:
            yield Failure(seed, cut.state, f"{type(error).__name__}: {error}", error, "METADATA=1 ")


def _check_state(cut: Cut, contents: workload.Contents, *, again: bool) -> None:
    disk = cut.disk
    if again:
        disk.trace = []
        platter = Platter(disk)
    with start_not_refused():
        directory, log = workload.start(disk, workload.NOW_MS)
        found = workload.check(disk, log, contents, cut.before, cut.after)
    if directory.clean:
        recover(disk)  # the first start was clean: run a recovery
    recovered = disk.files()
    recover(disk)
    check_unchanged(recovered, disk.files())
    if again:
        # What the recovery found is durable: it was read from the platter.
        count = len(found.entries)
        known = workload.Known(found, count, count, log.read_quorum_state(), workload.newest(log).end_offset)
        second = workload.Workload(disk, cut.random, found, dict(contents))
        second.run(ACTIONS_AFTER)
        for last in power_cuts(platter, disk.trace or [], [cut.random], [0]):
            _check_state(last._replace(before=last.before or known), second.contents, again=False)


def recover(disk: MemoryDisk) -> tuple[LogDirectory, MetadataLog]:
    """Open the metadata log as the next start would."""
    with start_not_refused():
        return workload.start(disk, workload.NOW_MS)
