from spark_jobs import JOBS
from tests.unit.barnabas.conftest import Command


def test_jobs_are_listed(barnabas: Command) -> None:
    shown = barnabas("spark", "list")
    assert shown.status == 0
    assert [line.split()[0] for line in shown.lines] == ["JOB", *JOBS]
