"""Write the table of metrics in METRICS.md.

python -m docs.metrics_table            rewrites the page
python -m docs.metrics_table --check    exits with 1 if the page is not up to date
"""

import sys
from pathlib import Path

from broker.monitoring.monitor import TABLES
from docs.generated import Generated

PAGE = Path(__file__).with_name("METRICS.md")
BEGIN = "<!-- written by python -m docs.metrics_table -->\n"
END = "<!-- end of what docs.metrics_table writes -->\n"


def table() -> str:
    """Return a table of all metrics, in the order in which they are served."""
    rows = [
        f"| `{column.name}` | {column.type or 'summary'} | {', '.join(labels)} | {column.help} |\n"
        for _, columns, labels in TABLES
        for column in columns
    ]
    return "| Name | Type | Labels | Description |\n|---|---|---|---|\n" + "".join(rows)


GENERATED = Generated(PAGE, BEGIN, END, table)


if __name__ == "__main__":
    sys.exit(GENERATED.main(sys.argv[1:], "python -m docs.metrics_table"))
