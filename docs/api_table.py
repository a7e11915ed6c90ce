"""Writes the tables of APIs and features in COMPAT.md from the code.

python -m docs.api_table            brings the page up to date
python -m docs.api_table --check    says whether it is
"""

import sys
from pathlib import Path

from broker.dispatch import served_apis
from protocol.api import APIS, FEATURES

PAGE = Path(__file__).with_name("COMPAT.md")
BEGIN = "<!-- written by python -m docs.api_table -->\n"
END = "<!-- end of what docs.api_table writes -->\n"


def tables() -> str:
    """Return both tables in Markdown."""
    served = served_apis("broker").keys() | served_apis("controller").keys()
    rows = [
        f"| {key.value} | {api.name} | {_span(api.min_version, api.max_version)} | {', '.join(api.listeners)} "
        f"| {'yes' if key in served else 'not yet'} |\n"
        for key, api in APIS.items()
    ]
    levels = [
        f"| {name} | {_span(feature.min_level, feature.max_level)} | {feature.default_level} |\n"
        for name, feature in FEATURES.items()
    ]
    return (
        f"{len(served)} of the {len(APIS)} APIs of Apache Kafka 4.3 are served.\n\n"
        "| Key | API | Versions | Listeners | Served |\n|---|---|---|---|---|\n"
        + "".join(rows)
        + "\n| Feature | Supported levels | On new clusters |\n|---|---|---|\n"
        + "".join(levels)
    )


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def with_tables(page: str) -> str:
    """Return the page with its tables as the code has them."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Bring the page up to date, or say whether it is."""
    page = PAGE.read_text(encoding="utf-8")
    current = with_tables(page)
    if arguments == ["--check"]:
        print("up to date" if page == current else "stale: run python -m docs.api_table")
        return int(page != current)
    PAGE.write_text(current, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
