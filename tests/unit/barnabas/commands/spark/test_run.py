import pytest

from spark_jobs import JOBS
from tests.unit.barnabas.conftest import Command


@pytest.mark.parametrize("job", JOBS)
def test_help_of_a_job_is_its_own(barnabas: Command, job: str) -> None:
    shown = barnabas("spark", "run", job, "--help")
    assert shown.status == 0
    assert f"barnabas spark run {job} " in shown.out
    assert "--checkpoint DIR" in shown.out


def test_help_of_the_command_names_a_job(barnabas: Command) -> None:
    assert "barnabas spark run windows --help" in barnabas("spark", "run", "--help").out
