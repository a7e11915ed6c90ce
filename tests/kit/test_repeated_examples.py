"""The twenty tests of what can go wrong (`examples/python/test_failures.py`) pass in each of many runs."""

from __future__ import annotations

import os
from pathlib import Path

from tests.kit.example_projects import run_pytest
from tests.proofs import count

RUNS = int(os.environ.get("BARNABAS_TEST_EXAMPLE_RUNS", "50"))
# The tests mostly wait. The runs of a worker follow each other, with one broker.
WORKERS = 3

REPEATED = """
import pytest

@pytest.fixture(autouse=True, params={}, scope="session")
def run(request):
    pass
"""


def test_what_can_go_wrong_goes_wrong_in_the_same_way_each_time(tmp_path: Path) -> None:
    names = [f"run-{number}" for number in range(RUNS)]
    (tmp_path / "conftest.py").write_text(REPEATED.format(names))
    run_pytest("python", tmp_path, "test_failures.py", "-n", str(WORKERS))
    count("runs of twenty tests of what can go wrong", RUNS)
