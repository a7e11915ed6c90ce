"""What a batch that was not printed to its end comes to. What is read at all, `test_consume.py` shows."""

import pytest
from kafka import KafkaConsumer

from barnabas.commands._offsets import Point, Range
from barnabas.commands._reading import GroupReading, RangeReading


@pytest.fixture
def filled(barnabas, topic) -> str:
    barnabas("produce", topic, stdin=b"0\n1\n2\n")
    return topic


@pytest.fixture
def consumer(filled, shared_broker):
    client = KafkaConsumer(bootstrap_servers=shared_broker.bootstrap, group_id=filled, auto_offset_reset="earliest")
    yield client
    client.close()


def test_a_group_has_not_read_what_was_not_printed(consumer, filled):
    reading = GroupReading(consumer, [filled], until_end=True)

    def print_nothing(records: list) -> None:
        if records:
            raise BrokenPipeError

    def until_it_breaks() -> None:
        while True:
            with reading.batch(None) as records:
                print_nothing(records)

    with pytest.raises(BrokenPipeError):
        until_it_breaks()
    read: list = []
    while not reading.done:
        with reading.batch(2) as records:
            read += records
    assert [record.value for record in read] == [b"0", b"1", b"2"]


def test_it_is_known_how_much_there_is_of_a_range(consumer, filled):
    whole = RangeReading(consumer, [filled], None, Range(Point("offset", 1)), until_end=True)
    assert (whole.expected(None), whole.expected(1), whole.done) == (2, 1, False)
    endless = RangeReading(consumer, [filled], None, Range(), until_end=False)
    assert (endless.expected(None), endless.expected(7)) == (None, 7)
    nothing = RangeReading(consumer, [filled], None, Range(Point("end")), until_end=True)
    assert (nothing.expected(None), nothing.done) == (0, True)


def test_names_beside_a_pattern_are_names(barnabas, shared_broker, topic):
    barnabas("topic", "create", f"{topic}.a", f"{topic}-a", f"{topic}-b")
    client = KafkaConsumer(bootstrap_servers=shared_broker.bootstrap, group_id=topic)
    try:
        reading = GroupReading(client, [f"{topic}.a", f"^{topic}-b"], until_end=True)
        while not client.assignment():
            with reading.batch(None):
                pass
        assert {one.topic for one in client.assignment()} == {f"{topic}.a", f"{topic}-b"}
    finally:
        client.close()
