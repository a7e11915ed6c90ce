"""`MemoryDisk` against `OsDisk`: the same calls return the same results and errors, and leave the same files.

Not compared: the state after a power cut (`test_power_cut.py`); locks, which a disk in memory does not keep; times;
sizes of directories and of the file system; whether a non-blocking read finds its bytes. Renames stay within a
directory, as all of the broker's do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from simulation.memory_disk import MemoryDisk
from storage.disk import Disk, File, OsDisk
from tests.examples import examples

NAMES = st.sampled_from(["a", "b", "a.tmp"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
SLOTS = st.integers(0, 2)
SIZES = st.one_of(st.integers(0, 12), st.integers(4090, 4100))
DATA = st.binary(max_size=12)


class SameDisk(RuleBasedStateMachine):
    """Both disks under one sequence of calls."""

    def __init__(self, parent: Path) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory(dir=parent)
        self.root = self.place.name
        self.real, self.memory = OsDisk(), MemoryDisk()
        self.memory.make_dirs(self.root)
        self.files: dict[int, tuple[File, File]] = {}

    def teardown(self) -> None:
        for files in self.files.values():
            for file in files:
                file.close()
        self.place.cleanup()

    def both(self, call: Callable[[Disk], object]) -> object:
        """Call on both disks; return the common result."""
        return same(partial(call, self.real), partial(call, self.memory))

    def path(self, path: str) -> str:
        return f"{self.root}/{path}"

    # Open files

    @rule(slot=SLOTS, path=PATHS, create=st.booleans())
    def open_file(self, slot: int, path: str, create: bool) -> None:
        opened: list[File] = []

        def open_file(disk: Disk) -> str:
            opened.append(disk.open_file(self.path(path), create))
            return opened[-1].path

        if self.both(open_file) == self.path(path):
            self.files[slot] = (opened[0], opened[1])

    def of_file(self, slot: int, call: Callable[[File], object]) -> None:
        if slot in self.files:
            real, memory = self.files[slot]
            same(partial(call, real), partial(call, memory))

    @rule(slot=SLOTS, size=SIZES, offset=SIZES)
    def pread(self, slot: int, size: int, offset: int) -> None:
        self.of_file(slot, lambda file: file.pread(size, offset))

    @rule(slot=SLOTS, size=SIZES, offset=SIZES)
    def pread_nowait(self, slot: int, size: int, offset: int) -> None:
        for file in self.files.get(slot, ()):
            found = file.pread_nowait(size, offset) if is_open(file) else None
            assert found is None or bytes(found) == file.pread(size, offset)

    @rule(slot=SLOTS, data=DATA, offset=SIZES)
    def pwrite(self, slot: int, data: bytes, offset: int) -> None:
        self.of_file(slot, lambda file: file.pwrite(memoryview(data), offset))

    @rule(slot=SLOTS, size=SIZES)
    def truncate(self, slot: int, size: int) -> None:
        self.of_file(slot, lambda file: file.truncate(size))

    @rule(slot=SLOTS)
    def sync(self, slot: int) -> None:
        self.of_file(slot, lambda file: file.sync())

    @rule(slot=SLOTS)
    def size(self, slot: int) -> None:
        self.of_file(slot, lambda file: file.size())

    @rule(slot=SLOTS)
    def close(self, slot: int) -> None:
        self.of_file(slot, lambda file: file.close())

    # Paths

    @rule(path=PATHS)
    def read_file(self, path: str) -> None:
        self.both(lambda disk: disk.read_file(self.path(path)))

    @rule(path=PATHS, max_bytes=SIZES)
    def read_regular_file(self, path: str, max_bytes: int) -> None:
        self.both(lambda disk: disk.read_regular_file(self.path(path), max_bytes))

    @rule(path=PATHS, data=DATA, sync=st.booleans())
    def replace_file(self, path: str, data: bytes, sync: bool) -> None:
        self.both(lambda disk: disk.replace_file(self.path(path), data, sync))

    @rule(parent=st.sampled_from(["", "a/", "b/", "a/a/"]), name=NAMES, other=NAMES)
    def rename(self, parent: str, name: str, other: str) -> None:
        self.both(lambda disk: disk.rename(self.path(parent + name), self.path(parent + other)))

    @rule(path=PATHS)
    def remove(self, path: str) -> None:
        self.both(lambda disk: disk.remove(self.path(path)))

    @rule(path=PATHS)
    def remove_tree(self, path: str) -> None:
        self.both(lambda disk: disk.remove_tree(self.path(path)))

    @rule(path=PATHS)
    def make_dirs(self, path: str) -> None:
        self.both(lambda disk: disk.make_dirs(self.path(path)))

    @rule(path=PATHS)
    def list_dir(self, path: str) -> None:
        self.both(lambda disk: disk.list_dir(self.path(path)))

    @rule(path=PATHS)
    def path_exists_and_size(self, path: str) -> None:
        self.both(lambda disk: disk.exists(self.path(path)))
        if not self.both(lambda disk: disk.is_dir(self.path(path))):
            self.both(lambda disk: disk.file_size(self.path(path)))

    @rule(path=PATHS)
    def file_attributes(self, path: str) -> None:
        for query in (OsDisk.modified_ms, OsDisk.free_bytes, OsDisk.total_bytes):
            name = query.__name__
            self.both(lambda disk, name=name: bool(getattr(disk, name)(self.path(path))))  # type: ignore[misc]

    @rule(path=PATHS)
    def sync_dir(self, path: str) -> None:
        self.both(lambda disk: disk.sync_dir(self.path(path)))

    @rule(path=PATHS)
    def lock(self, path: str) -> None:
        """A lock writes the process id to the file, so its content is made the same afterwards."""

        def lock(disk: Disk) -> None:
            disk.lock(self.path(path)).release()
            disk.open_file(self.path(path)).truncate(0)

        self.both(lock)

    @invariant()
    def same_files(self) -> None:
        found = {str(path): None if path.is_dir() else path.read_bytes() for path in Path(self.root).rglob("*")}
        files = {path: data for path, data in found.items() if data is not None}
        assert self.memory.files() == files
        for path, data in found.items():
            assert self.memory.is_dir(path) == (data is None)


def is_open(file: File) -> bool:
    try:
        file.size()
    except OSError:
        return False
    return True


def same(real: Callable[[], object], memory: Callable[[], object]) -> object:
    """Return the result of both calls, or the kind of error that both raise."""
    results = [outcome(real), outcome(memory)]
    assert results[0] == results[1], f"a file system: {results[0]}, in memory: {results[1]}"
    return results[0]


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except OSError as error:
        return type(error), error.errno


@pytest.mark.parametrize("place", ["default", "tmpfs"])
def test_memory_disk_behaves_as_a_file_system(tmp_path: Path, place: str) -> None:
    parent = tmp_path if place == "default" else Path("/dev/shm")
    if not parent.is_dir():
        pytest.skip("there is no tmpfs at /dev/shm")
    run_state_machine_as_test(
        partial(SameDisk, parent),  # type: ignore[arg-type]
        settings=settings(max_examples=examples(100), stateful_step_count=40, deadline=None),
    )
