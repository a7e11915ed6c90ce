from pathlib import Path

import broker.handlers
from docs.api_table import PAGE, tables, with_tables


def test_the_compatibility_page_is_up_to_date():
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tables(page), "run python -m docs.api_table"


def test_only_the_tables_are_rewritten():
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page.replace("| Fetch |", "| Fech |")) == with_tables(page)
    assert with_tables(page).startswith("# Compatibility with Apache Kafka\n")


def test_an_api_is_called_served_where_it_has_a_handler():
    handlers = {path.stem.replace("_", "") for path in Path(broker.handlers.__path__[0]).glob("[a-z]*.py")}
    served = {row.split(" | ")[1].lower() for row in tables().splitlines() if row.endswith("| yes |")}
    assert served == handlers
