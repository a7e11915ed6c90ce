from broker.routes import ROUTES
from docs.api_table import GENERATED, PAGE, tables
from protocol.api import APIS


def test_the_compatibility_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == GENERATED.brought_up_to_date(page), "run python -m docs.api_table"


def test_only_the_tables_are_rewritten() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert GENERATED.brought_up_to_date(page.replace("| Fetch |", "| Fech |")) == GENERATED.brought_up_to_date(page)
    assert GENERATED.brought_up_to_date(page).startswith("# Compatibility with Apache Kafka\n")


def test_api_with_a_handler_is_listed_as_served() -> None:
    served = {row.split(" | ")[1] for row in tables().splitlines() if row.endswith("| yes |")}
    assert served == {APIS[key].name for key in ROUTES}
