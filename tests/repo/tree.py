"""The repository's files, and the imports and calls of its Python files."""

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


@functools.cache
def files() -> tuple[Path, ...]:
    """Return every file of the project: tracked files, and untracked ones that git does not ignore."""
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
    """Yield every node except those under `if TYPE_CHECKING`."""
    if isinstance(tree, ast.If) and isinstance(tree.test, ast.Name) and tree.test.id == "TYPE_CHECKING":
        for node in tree.orelse:
            yield from runtime_nodes(node)
        return
    yield tree
    for child in ast.iter_child_nodes(tree):
        yield from runtime_nodes(child)


@functools.cache
def runtime_imports(tree: ast.AST) -> frozenset[str]:
    """Return the modules that this code imports at run time, at module level or in functions.

    `from package import name` yields `package` and `package.name`, which may be a module.
    """
    found: set[str] = set()
    for node in runtime_nodes(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def imports_of(tree: ast.AST, *names: str) -> set[str]:
    """Return which of the modules `names`, or their submodules, this code imports at run time."""
    parts = tuple(f"{name}." for name in names)
    return {found for found in runtime_imports(tree) if found in names or found.startswith(parts)}


@functools.cache
def calls(tree: ast.AST) -> frozenset[str]:
    """Return the called expressions as source text: `open`, `os.rename`, `self._disk.rename`."""
    return frozenset(ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
