"""The code inspection of the tidy tests, on a sample of code."""

import ast

import pytest

from tests.repo.tree import calls, files, imports_of, modules, runtime_imports

CODE = """
import os.path
from asyncio import Future
if TYPE_CHECKING:
    from random import Random
else:
    import secrets
def f():
    import time
    time.sleep(open(name).size)
"""


def test_imports_inside_functions_count_and_imports_for_types_do_not() -> None:
    tree = ast.parse(CODE)
    assert runtime_imports(tree) == {"os.path", "asyncio", "asyncio.Future", "secrets", "time"}


@pytest.mark.parametrize(
    ("name", "found"), [("os", {"os.path"}), ("asyncio", {"asyncio", "asyncio.Future"}), ("o", set())]
)
def test_a_module_is_imported_with_its_parts(name: str, found: set[str]) -> None:
    assert imports_of(ast.parse(CODE), name) == found


def test_calls_are_found_inside_calls() -> None:
    assert calls(ast.parse(CODE)) == {"time.sleep", "open"}


def test_untracked_files_belong_to_the_project() -> None:
    assert {"tests/repo/tree.py", "storage/disk.py"} <= set(modules("tests", "storage"))
    assert not [path for path in files() if ".venv" in path.parts]
