"""The product has no import cycle, not even for types."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePath

import pytest

from tests.repo.tree import modules, parsed

PACKAGES = ("protocol", "storage", "controller", "broker", "simulation", "barnabas", "spark_jobs")


def dotted(module: str) -> str:
    """Return the import name of a file."""
    return ".".join(PurePath(module).with_suffix("").parts).removesuffix(".__init__")


def imported(tree: ast.AST, known: set[str]) -> set[str]:
    """Return the modules of `known` that this code imports: at run time, in a function or for types."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names & known) or {node.module}
    return found & known


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of one import cycle; an empty list if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_import_cycle() -> None:
    files = {dotted(module): parsed(module) for module in modules(*PACKAGES)}
    known = set(files)
    graph = {name: imported(tree, known) - {name} for name, tree in files.items()}
    assert len(graph) > 400
    assert cycle(graph) == []


@pytest.mark.parametrize(
    "back",
    [
        "import a.b",
        "from a import b",
        "from a.b import c",
        "if TYPE_CHECKING:\n    from a.b import c",
        "def f():\n    import a.b",
    ],
)
def test_a_cycle_is_found(back: str) -> None:
    known = {"a", "a.b", "d"}
    graph = {"a": set[str](), "a.b": {"d"}, "d": imported(ast.parse(back), known)}
    assert set(cycle(graph)) == {"a.b", "d"}
