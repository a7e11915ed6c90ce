import pytest

from tests.unit.barnabas.conftest import Command


@pytest.mark.parametrize(
    ("name", "message"),
    [("dleta", "no connector 'dleta'; did you mean delta?\n"), ("x", "no connector 'x'; write one of kafka, avro, ")],
)
def test_unknown_connectors_are_named_before_one_is_fetched(barnabas: Command, name: str, message: str) -> None:
    shown = barnabas("spark", "jars", "kafka", name)
    assert shown.status == 2
    assert message in shown.err
