import re
from pathlib import Path

from docs.file_map import GENERATED, PAGE, ROOT, file_map, first_line


def test_the_page_of_files_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == GENERATED.brought_up_to_date(page), "run python -m docs.file_map"


def test_only_the_map_is_rewritten() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert GENERATED.brought_up_to_date(
        page.replace("(../storage/disk.py)", "(../storage/disc.py)")
    ) == GENERATED.brought_up_to_date(page)
    assert GENERATED.brought_up_to_date(page).startswith("# Files\n")


def test_a_module_is_described_by_the_first_line_of_its_docstring(tmp_path: Path) -> None:
    module = tmp_path / "room.py"
    module.write_text('r"""Either a | or b.\n\nMore of it.\n"""\nx = 1\n')
    assert first_line(module) == r"Either a \| or b."


def test_every_module_of_the_product_is_on_the_map() -> None:
    mapped = file_map()
    tops = ("protocol", "storage", "controller", "broker", "simulation")
    modules = [path for top in tops for path in (ROOT / top).rglob("*.py")]
    missing = [path for path in modules if path.name != "__init__.py" and f"../{path.relative_to(ROOT)})" not in mapped]
    assert not missing


def test_folders_and_files_are_sorted_by_name() -> None:
    folders = [path.rstrip("/").split("/") for path in re.findall(r"^## (\S+)$", file_map(), re.MULTILINE)]
    assert folders == sorted(folders)
    for table in file_map().split("\n## ")[1:]:
        names = re.findall(r"^\| \[`([^`]+)`\]", table, re.MULTILINE)
        assert names == sorted(names)


def test_the_table_of_folders_links_to_each() -> None:
    contents, *tables = file_map().split("\n## ")
    linked = re.findall(r"^\| \[`([^`]+)`\]\(#(\w+)\)", contents, re.MULTILINE)
    assert [name for name, _ in linked] == [table.partition("\n")[0] for table in tables]
    assert [anchor for _, anchor in linked] == [name.replace("/", "") for name, _ in linked]
