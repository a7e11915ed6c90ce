"""Writes the table of metrics in METRICS.md from the code.

python -m docs.metrics_table            brings the page up to date
python -m docs.metrics_table --check    says whether it is
"""

import sys
from pathlib import Path

from broker.monitoring.monitor import TABLES
from docs.generated import Generated

PAGE = Path(__file__).with_name("METRICS.md")
BEGIN = "<!-- written by python -m docs.metrics_table -->\n"
END = "<!-- end of what docs.metrics_table writes -->\n"


def table() -> str:
    """Return every metric in Markdown, in the order in which they are served."""
    rows = [
        f"| `{column.name}` | {column.type or 'summary'} | {', '.join(labels)} | {column.help} |\n"
        for _, columns, labels in TABLES
        for column in columns
    ]
    return "| Name | Type | Labels | What it is |\n|---|---|---|---|\n" + "".join(rows)


GENERATED = Generated(PAGE, BEGIN, END, table)


if __name__ == "__main__":
    sys.exit(GENERATED.main(sys.argv[1:], "python -m docs.metrics_table"))
