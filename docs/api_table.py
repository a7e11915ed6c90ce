"""Write the tables of APIs and features in COMPAT.md.

python -m docs.api_table            rewrites the page
python -m docs.api_table --check    exits with 1 if the page is not up to date
"""

import sys
from pathlib import Path

from broker.routes import served_apis
from docs.generated import Generated
from protocol.api import APIS, FEATURES

PAGE = Path(__file__).with_name("COMPAT.md")
BEGIN = "<!-- written by python -m docs.api_table -->\n"
END = "<!-- end of what docs.api_table writes -->\n"


def tables() -> str:
    """Return both tables."""
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


GENERATED = Generated(PAGE, BEGIN, END, tables)


if __name__ == "__main__":
    sys.exit(GENERATED.main(sys.argv[1:], "python -m docs.api_table"))
