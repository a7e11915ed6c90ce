import pytest


@pytest.fixture
def filled(barnabas, topic):
    """A topic of three partitions, with the records p0-0 to p2-3."""
    barnabas("topic", "create", f"{topic}:3")
    for partition in range(3):
        lines = "".join(f"p{partition}-{number}\n" for number in range(4))
        barnabas("produce", topic, "-p", str(partition), "-k", "k", stdin=lines.encode())
    return topic


def test_everything_up_to_the_end(barnabas, filled):
    said = barnabas("consume", filled, "--exit")
    assert (said.status, said.err) == (0, "")
    assert sorted(said.lines) == [f"p{partition}-{number}" for partition in range(3) for number in range(4)]


def test_one_partition_is_in_order(barnabas, filled):
    assert barnabas("consume", filled, "-p", "1", "--exit").lines == ["p1-0", "p1-1", "p1-2", "p1-3"]


def test_from_an_offset_on(barnabas, filled):
    assert barnabas("consume", filled, "-p", "2", "-o", "3", "-e").lines == ["p2-3"]
    assert barnabas("consume", filled, "-o", "end", "-e") == (0, "", "")


def test_so_many_records_and_no_more(barnabas, filled):
    assert len(barnabas("consume", filled, "-n", "5").lines) == 5


def test_keys_are_printed_where_asked_for(barnabas, filled):
    assert barnabas("consume", filled, "-p", "0", "-n", "1", "-K", " => ").lines == ["k => p0-0"]


def test_several_topics(barnabas, filled):
    barnabas("produce", f"{filled}-2", stdin=b"other\n")
    said = barnabas("consume", filled, f"{filled}-2", "-e").lines
    assert len(said) == 13
    assert "other" in said


def test_an_empty_topic_has_an_end(barnabas, topic):
    barnabas("topic", "create", topic)
    assert barnabas("consume", topic, "--exit") == (0, "", "")


def test_a_group_goes_on_where_it_stopped(barnabas, filled):
    first = barnabas("consume", filled, "-g", filled, "-n", "7").lines
    second = barnabas("consume", filled, "-g", filled, "-n", "5").lines
    assert len({*first, *second}) == 12


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["missing", "-e"], "there is no topic missing"),
        (["{topic}", "-p", "9", "-e"], "{topic} has partitions 0 to 2, no 9"),
    ],
)
def test_what_is_not_there_is_said(barnabas, filled, arguments, complaint):
    said = barnabas("consume", *(argument.format(topic=filled) for argument in arguments))
    assert said == (1, "", f"barnabas consume: {complaint.format(topic=filled)}\n")


def test_asking_for_a_topic_does_not_create_it(barnabas, topic):
    barnabas("consume", topic, "-e")
    assert topic not in barnabas("topic", "list").lines


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["t", "-o", "soon"], "'soon' is neither start, end nor a number"),
        (["t", "-n", "0"], "'0' is not a number of at least 1"),
        (["t", "-g", "g", "-p", "0"], "--group chooses its partitions itself"),
        (["t", "-g", "g", "-e"], "--group chooses its partitions itself"),
        ([], "the following arguments are required: topic"),
    ],
)
def test_a_wrong_call_is_told_before_any_broker_is_asked(call, arguments, complaint):
    status, out, err = call("consume", *arguments)
    assert (status, out) == (2, "")
    assert complaint in err
