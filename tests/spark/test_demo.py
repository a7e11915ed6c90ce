"""The demo as a user runs it: real brokers and real Spark; `make prove` takes the whole year, twice in a row."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.flights import dataset, demo

DAYS = int(os.environ.get("BARNABAS_TEST_DEMO_DAYS", "20"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--days", "0"], "argument --days: 0: write a number from 1 to 365"),
        (["--days", "30"], "data has the first 20 days: write --days 20, or --reset to begin anew"),
        ([], "data has the first 20 days: write --days 20, or --reset to begin anew"),
    ],
)
def test_the_days_are_those_that_the_data_were_begun_with(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    (tmp_path / "data").mkdir()
    assert demo._begun_with(str(tmp_path / "data"), 20) == 20
    monkeypatch.setattr(sys, "argv", ["demo", "--data", str(tmp_path / "data"), *words])
    with pytest.raises(SystemExit) as end:
        demo.main()
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_data_of_the_year_are_recognized(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    assert demo._begun_with(str(tmp_path), 20) == dataset.DAYS


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
