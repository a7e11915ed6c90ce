from broker.said_once import SaidOnce


def test_each_key_is_new_once():
    said = SaidOnce()
    assert [said.is_new(key) for key in ("a", "b", "a", "b")] == [True, True, False, False]


def test_no_more_is_said_than_can_be_remembered():
    said = SaidOnce(limit=2)
    assert [said.is_new(str(number)) for number in range(5)] == [True, True, False, False, False]
