import pytest

from barnabas.commands.spark.submit import _spark_words
from tests.unit.barnabas.conftest import Command


@pytest.mark.parametrize(
    ("words", "before"),
    [
        ("windows -t a", 0),
        ("--master spark://h:7077 windows --master x", 2),
        ("--master=local windows", 1),
        ("--verbose --conf a=b windows", 3),
    ],
)
def test_words_before_the_job_are_sparks(words: str, before: int) -> None:
    assert _spark_words(words.split()) == before


def test_a_job_must_follow_sparks_words(barnabas: Command) -> None:
    shown = barnabas("spark", "submit", "--master", "windows")
    assert shown.status == 2
    assert "name a job: " in shown.err
