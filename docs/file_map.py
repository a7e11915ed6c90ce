"""Writes the file map in ARCHITECTURE.md from the first lines of the modules' docstrings.

python -m docs.file_map            brings the page up to date
python -m docs.file_map --check    says whether it is
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from docs.generated import Generated

PAGE = Path(__file__).with_name("ARCHITECTURE.md")
ROOT = PAGE.parent.parent
BEGIN = "<!-- written by python -m docs.file_map -->\n"
END = "<!-- end of what docs.file_map writes -->\n"

FOLDERS = ("protocol", "storage", "controller", "broker", "barnabas", "spark_jobs", "benchmarks", "docs")


def file_map() -> str:
    """Return a table for each folder that holds modules: every module, and what it says of itself."""
    return "\n".join(_table(folder) for top in FOLDERS for folder in _folders(ROOT / top))


def _folders(folder: Path) -> Iterator[Path]:
    if next(folder.glob("*.py"), None):
        yield folder
    for inner in sorted(folder.iterdir()):
        if inner.is_dir() and inner.name != "__pycache__":
            yield from _folders(inner)


def _table(folder: Path) -> str:
    about = folder / "__init__.py"
    rows = [
        f"| [`{module.name}`](../{module.relative_to(ROOT)}) | {first_line(module)} |\n"
        for module in sorted(folder.glob("*.py"))
        if module != about
    ]
    introduction = f"{first_line(about)}\n\n" if about.exists() else ""
    table = "| File | What it is |\n|---|---|\n" + "".join(rows) if rows else ""
    return f"### {folder.relative_to(ROOT)}/\n\n{introduction}{table}"


def first_line(module: Path) -> str:
    """Return the summary that a module's docstring begins with, fit for a table's cell."""
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0].replace("|", "\\|")


GENERATED = Generated(PAGE, BEGIN, END, file_map)


if __name__ == "__main__":
    sys.exit(GENERATED.main(sys.argv[1:], "python -m docs.file_map"))
