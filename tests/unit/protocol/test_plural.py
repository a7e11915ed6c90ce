from protocol.plural import count_of


def test_one_is_singular() -> None:
    assert [count_of(number, "record") for number in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
