"""The repository as its own tests see it: its files, and what the Python among them imports and calls."""

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


@functools.cache
def files() -> tuple[Path, ...]:
    """Return every file of the project: what git tracks, and what it would if it were told to."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return tuple(path for name in sorted(set(names)) if name and (path := ROOT / name).is_file())


def modules(*folders: str) -> list[str]:
    """Return the Python files in these folders, relative to the root."""
    names = (str(path.relative_to(ROOT)) for path in files() if path.suffix == ".py")
    return [name for name in names if name.startswith(tuple(f"{folder}/" for folder in folders))]


@functools.cache
def parsed(module: str) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse((ROOT / module).read_text(encoding="utf-8"), module)


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every node that can run: all but what stands under `if TYPE_CHECKING`."""
    if isinstance(tree, ast.If) and isinstance(tree.test, ast.Name) and tree.test.id == "TYPE_CHECKING":
        for node in tree.orelse:
            yield from runtime_nodes(node)
        return
    yield tree
    for child in ast.iter_child_nodes(tree):
        yield from runtime_nodes(child)


@functools.cache
def runtime_imports(tree: ast.AST) -> frozenset[str]:
    """Return the modules that are imported when this code runs, at its top or in its functions.

    Of `from package import name` it returns `package` and `package.name`, which may be a module too.
    """
    found: set[str] = set()
    for node in runtime_nodes(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def imports_of(tree: ast.AST, *names: str) -> set[str]:
    """Return which of the modules `names`, or parts of them, this code imports when it runs."""
    parts = tuple(f"{name}." for name in names)
    return {found for found in runtime_imports(tree) if found in names or found.startswith(parts)}


@functools.cache
def calls(tree: ast.AST) -> frozenset[str]:
    """Return what is called, as it is written: `open`, `os.rename`, `self._disk.rename`."""
    return frozenset(ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
