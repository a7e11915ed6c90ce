"""The demo as a user runs it: real brokers and real Spark; `make prove` takes the whole year, twice in a row."""

import os
import subprocess
import sys
from pathlib import Path

from spark_jobs.flights import dataset

DAYS = int(os.environ.get("BARNABAS_TEST_DEMO_DAYS", "20"))


def run_demo(data: Path) -> str:
    command = [
        sys.executable,
        "-m",
        "spark_jobs.flights.demo",
        "--data",
        str(data),
        "--seconds",
        "5",
        "--days",
        str(DAYS),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_demo_ends_with_matching_sums_and_a_second_run_resumes(tmp_path: Path) -> None:
    first = run_demo(tmp_path)
    assert f"{sum(map(len, dataset.departures(DAYS))):,} records sent" in first
    assert first.rstrip().endswith("sums match")
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")
    if DAYS == dataset.DAYS:
        second = run_demo(tmp_path)
        assert "topic flights: complete already" in second
        assert second.rstrip().endswith("sums match")
