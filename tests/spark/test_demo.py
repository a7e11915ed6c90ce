"""The demo as a user runs it: a real broker, real Spark, the whole year, twice in a row."""

import subprocess
import sys
from pathlib import Path


def run_demo(data: Path) -> str:
    command = [sys.executable, "-m", "spark_jobs.flights.demo", "--data", str(data), "--seconds", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_demo_ends_with_matching_sums_and_second_run_resumes(tmp_path: Path) -> None:
    first = run_demo(tmp_path)
    assert "336,776 records sent" in first
    assert first.rstrip().endswith("sums match")
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")
    second = run_demo(tmp_path)
    assert "topic flights: complete already" in second
    assert second.rstrip().endswith("sums match")
