"""Write the tables of planted bugs and mutants in SIMULATION.md.

python -m docs.planted_bugs            rewrites the page
python -m docs.planted_bugs --check    exits with 1 if the page is not up to date
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from docs.generated import Generated
from tests.crash import bugs as crash_bugs
from tests.crash import metadata_bugs
from tests.mutants import MUTANTS
from tests.planting import NEARBY_SEEDS, Bug
from tests.simulation import bugs, cluster_bugs, credential_bugs, raft_bugs, transaction_bugs

PAGE = Path(__file__).with_name("SIMULATION.md")
BEGIN = "<!-- written by python -m docs.planted_bugs -->\n"
END = "<!-- end of what docs.planted_bugs writes -->\n"

TABLES: tuple[tuple[str, str, Sequence[Bug]], ...] = (
    ("One broker", "Seed", bugs.BUGS),
    ("Clusters", "Seed", cluster_bugs.BUGS),
    ("Transactions", "Seed", transaction_bugs.BUGS),
    ("Credentials", "Seed", credential_bugs.BUGS),
    ("Raft", "Seed", raft_bugs.BUGS),
    ("Power cuts, topics' logs", "State", crash_bugs.BUGS),
    ("Power cuts, the metadata log", "State", metadata_bugs.BUGS),
)


def tables() -> str:
    """Return a table of planted bugs for each checker."""
    return "\n".join(table(title, number, planted) for title, number, planted in TABLES)


def mutants() -> str:
    """Return a table of the mutants, each with the first test that finds it."""
    rows = [f"| {mutant.name} | `{mutant.path}` | `{mutant.found_by}` | {mutant.seconds} |\n" for mutant in MUTANTS]
    return "| Mutant | Of | Found by | After (s) |\n|---|---|---|---|\n" + "".join(rows)


def table(title: str, number: str, planted: Sequence[Bug]) -> str:
    """Return the table of one checker's bugs; `number` is the title of the column of seeds or states."""
    rows = [
        f"| `{bug.name}` | {bug.mistake} | {bug.invariant.value} | {bug.seed} | {bug.neighbours or '-'} |\n"
        for bug in planted
    ]
    head = f"| {title} | What is wrong | Invariant | {number} | Of {NEARBY_SEEDS} |\n|---|---|---|---|---|\n"
    return head + "".join(rows)


COMMAND = "python -m docs.planted_bugs"
GENERATED = Generated(PAGE, BEGIN, END, tables)
GENERATED_MUTANTS = Generated(
    PAGE, f"<!-- mutants, written by {COMMAND} -->\n", "<!-- end of the mutants -->\n", mutants
)


if __name__ == "__main__":
    sys.exit(max(GENERATED.main(sys.argv[1:], COMMAND), GENERATED_MUTANTS.main(sys.argv[1:], COMMAND)))
