from pathlib import Path

from docs.file_map import GENERATED, PAGE, ROOT, file_map, first_line


def test_the_architecture_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == GENERATED.brought_up_to_date(page), "run python -m docs.file_map"


def test_only_the_map_is_rewritten() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert GENERATED.brought_up_to_date(
        page.replace("(../storage/disk.py)", "(../storage/disc.py)")
    ) == GENERATED.brought_up_to_date(page)
    assert GENERATED.brought_up_to_date(page).startswith("# Architecture\n")


def test_a_module_is_told_by_the_first_line_of_its_docstring(tmp_path: Path) -> None:
    module = tmp_path / "room.py"
    module.write_text('r"""Either a | or b.\n\nMore of it.\n"""\nx = 1\n')
    assert first_line(module) == r"Either a \| or b."


def test_every_module_of_the_product_is_on_the_map() -> None:
    mapped = file_map()
    modules = [path for top in ("protocol", "storage", "controller", "broker") for path in (ROOT / top).rglob("*.py")]
    missing = [path for path in modules if path.name != "__init__.py" and f"../{path.relative_to(ROOT)})" not in mapped]
    assert not missing
