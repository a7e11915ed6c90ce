from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.all_files import write_all_files
from tests.corruption.damages import Damage

Damaged = Callable[[Damage], AbstractContextManager[Path]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a file of each kind, after a clean shutdown."""
    folder = tmp_path_factory.mktemp("data")
    write_all_files(folder)
    return folder


@pytest.fixture(scope="module")
def damaged(folder: Path) -> Damaged:
    """A context manager that damages the directory and restores it at the end; for read-only tests."""

    @contextmanager
    def damaged(damage: Damage) -> Iterator[Path]:
        file = folder / damage.path
        before = file.read_bytes()
        damage.do(folder)
        try:
            yield folder
        finally:
            file.write_bytes(before)

    return damaged
