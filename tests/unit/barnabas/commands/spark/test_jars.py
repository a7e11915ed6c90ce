from tests.unit.barnabas.conftest import Command


def test_unknown_connectors_are_named(barnabas: Command) -> None:
    shown = barnabas("spark", "jars", "kafkaa")
    assert shown.status == 1
    assert "no connector 'kafkaa'; write one of kafka, " in shown.err
