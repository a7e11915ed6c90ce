"""Write FILES.md: every folder of the product and every module in it, with the first line of its docstring.

python -m docs.file_map            rewrites the page
python -m docs.file_map --check    exits with 1 if the page is not up to date
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from docs.generated import Generated

PAGE = Path(__file__).with_name("FILES.md")
ROOT = PAGE.parent.parent
BEGIN = "<!-- written by python -m docs.file_map -->\n"
END = "<!-- end of what docs.file_map writes -->\n"

FOLDERS = ("barnabas", "benchmarks", "broker", "controller", "docs", "protocol", "simulation", "spark_jobs", "storage")
# Of those that are no packages.
ABOUT = {
    "benchmarks": "What `make bench` and `python -m benchmarks NAME` measure.",
    "docs": "The documentation, and the programs that write its generated tables.",
}


def file_map() -> str:
    """Return a table of the folders that hold modules, and a table of the modules of each, in the order of `ls -R`."""
    folders = [folder for top in FOLDERS for folder in _folders(ROOT / top)]
    rows = [f"| [`{_name(folder)}`](#{_anchor(folder)}) | {_introduction(folder)} |\n" for folder in folders]
    contents = "| Folder | What it is |\n|---|---|\n" + "".join(rows)
    return "\n".join((contents, *map(_table, folders)))


def _folders(folder: Path) -> Iterator[Path]:
    if next(folder.glob("*.py"), None):
        yield folder
    for inner in sorted(folder.iterdir()):
        if inner.is_dir() and inner.name != "__pycache__":
            yield from _folders(inner)


def _name(folder: Path) -> str:
    return f"{folder.relative_to(ROOT)}/"


def _anchor(folder: Path) -> str:
    """Return the anchor that GitHub gives to the folder's heading."""
    return _name(folder).replace("/", "")


def _introduction(folder: Path) -> str:
    about = folder / "__init__.py"
    return first_line(about) if about.exists() else ABOUT.get(folder.name, "")


def _table(folder: Path) -> str:
    rows = [
        f"| [`{module.name}`](../{module.relative_to(ROOT)}) | {first_line(module)} |\n"
        for module in sorted(folder.glob("*.py"))
        if module.name != "__init__.py"
    ]
    introduction = f"{_introduction(folder)}\n\n" if _introduction(folder) else ""
    table = "| File | What it is |\n|---|---|\n" + "".join(rows) if rows else ""
    return f"## {_name(folder)}\n\n{introduction}{table}"


def first_line(module: Path) -> str:
    """Return the first line of a module's docstring, escaped for a table's cell."""
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0].replace("|", "\\|")


GENERATED = Generated(PAGE, BEGIN, END, file_map)


if __name__ == "__main__":
    sys.exit(GENERATED.main(sys.argv[1:], "python -m docs.file_map"))
