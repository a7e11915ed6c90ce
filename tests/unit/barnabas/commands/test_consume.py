from __future__ import annotations

import json
import re

import pytest

from tests.unit.barnabas.conftest import Command


@pytest.fixture
def filled(barnabas: Command, topic: str) -> str:
    """A topic with three partitions and the records p0-0 to p2-3."""
    barnabas("topic", "create", f"{topic}:3")
    for partition in range(3):
        lines = "".join(f"p{partition}-{number}\n" for number in range(4))
        barnabas("produce", topic, "-p", str(partition), "-k", "k", stdin=lines.encode())
    return topic


def test_consume_reads_all_records_up_to_the_end(barnabas: Command, filled: str) -> None:
    shown = barnabas("consume", filled, "--exit")
    assert (shown.status, shown.err) == (0, "")
    assert sorted(shown.lines) == [f"p{partition}-{number}" for partition in range(3) for number in range(4)]


def test_one_partition_is_in_order(barnabas: Command, filled: str) -> None:
    assert barnabas("consume", filled, "-p", "1", "--exit").lines == ["p1-0", "p1-1", "p1-2", "p1-3"]
    two = barnabas("consume", filled, "-p", "0,2", "--exit").lines
    assert sorted(two) == sorted(barnabas("consume", filled, "-p", "0", "-p", "2", "--exit").lines)
    assert {line[:2] for line in two} == {"p0", "p2"}


@pytest.mark.parametrize(
    ("offset", "printed"),
    [
        (["3"], ["p2-3"]),
        (["4"], []),
        (["-2"], ["p2-2", "p2-3"]),
        (["-99"], ["p2-0", "p2-1", "p2-2", "p2-3"]),
        (["+3"], ["p2-3"]),
        (["end"], []),
        (["1:3"], ["p2-1", "p2-2"]),
        ([":1"], ["p2-0"]),
        (["3:3"], []),
        ([":end"], ["p2-0", "p2-1", "p2-2", "p2-3"]),
        (["@-1h:end"], ["p2-0", "p2-1", "p2-2", "p2-3"]),
        (["@2020-01-01:24h"], []),
        (["s@0", "e@1"], []),
    ],
)
def test_consume_reads_the_range_of_the_offset_option(
    barnabas: Command, filled: str, offset: list[str], printed: list[str]
) -> None:
    options = [word for one in offset for word in ("-o", one)]
    until = [] if any(":" in one or "e@" in one for one in offset) else ["-e"]
    shown = barnabas("consume", filled, "-p", "2", *options, *until)
    assert shown == (0, "".join(f"{line}\n" for line in printed), "")


def test_consume_starts_at_the_first_record_of_a_time(barnabas: Command, topic: str) -> None:
    lines = "".join(f'{{"value": "{day}", "timestamp": {day * 86_400_000}}}\n' for day in (1, 2, 3))
    barnabas("topic", "create", topic, "-c", "retention.ms=-1")
    barnabas("produce", topic, "--json", stdin=lines.encode())
    assert barnabas("consume", topic, "-e", "-o", "@1970-01-03").lines == ["2", "3"]
    assert barnabas("consume", topic, "-o", "@1970-01-02:1d").lines == ["1"]
    assert barnabas("consume", topic, "-o", "@:1970-01-03").lines == ["1"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["-g", ""], "--group: the name of a group has at least one character"),
        ([""], "the name of a topic has at least one character"),
        (["-X", "group.id=zzz"], "-X group.id=zzz: write the group as -g zzz"),
        (["-X", "auto.offset.reset=latest"], "it has no effect without --group: use -o start or -o end"),
    ],
)
def test_options_without_effect_are_refused(call: Command, options: list[str], complaint: str) -> None:
    status, out, err = call("consume", "t", "-e", *options)
    assert (status, out) == (2, "")
    assert err.endswith(f"{complaint}\n")


def test_a_range_from_the_end_needs_no_equals_sign(barnabas: Command, filled: str) -> None:
    shown = barnabas("consume", filled, "-p", "0", "-e", "-o", "-1:end")
    assert (shown.status, len(shown.lines), shown.err) == (0, 1, "")


def test_consume_stops_after_the_requested_number_of_records(barnabas: Command, filled: str) -> None:
    assert len(barnabas("consume", filled, "-n", "5").lines) == 5
    assert len(barnabas("consume", filled, "-c", "5").lines) == 5


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        (["-K", " => "], "k => p0-0\n"),
        (["-K", r"\t", "-D", "|"], "k\tp0-0|"),
        (["-O", "-K", ":"], "0:k:p0-0\n"),
        (["-f", r"%t[%p]@%o %k=%v%%\n"], "{topic}[0]@0 k=p0-0%\n"),
        (["-f", "%k", "-u"], "k"),
    ],
)
def test_format_options_choose_the_printed_fields(
    barnabas: Command, filled: str, options: list[str], printed: str
) -> None:
    shown = barnabas("consume", filled, "-p", "0", "-n", "1", *options)
    assert shown == (0, printed.format(topic=filled), "")


def test_null_marker_distinguishes_null_from_empty(barnabas: Command, topic: str) -> None:
    barnabas("produce", topic, "-K", ":", "-Z", stdin=b"k:\n")
    assert barnabas("consume", topic, "-e", "-K", ":").out == "k:\n"
    assert barnabas("consume", topic, "-e", "-K", ":", "-Z").out == "k:NULL\n"


def test_json_output_has_one_object_per_line(barnabas: Command, topic: str) -> None:
    barnabas("produce", topic, "-k", "k", "-H", "a=1", "-H", "a=2", stdin=b"v\n")
    record = json.loads(barnabas("consume", topic, "-e", "--json").out)
    assert record.pop("timestamp") > 1_600_000_000_000
    assert record == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp_type": "create",
        "key": "k",
        "value": "v",
        "headers": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}],
    }
    assert json.loads(barnabas("consume", topic, "-e", "--meta-only").out)["value_size"] == 1


def test_several_topics_by_name_and_by_pattern(barnabas: Command, filled: str) -> None:
    barnabas("produce", f"{filled}-2", stdin=b"other\n")
    shown = barnabas("consume", filled, f"{filled}-2", "-e").lines
    assert len(shown) == 13
    assert "other" in shown
    assert sorted(barnabas("consume", f"^{filled}", "-e").lines) == sorted(shown)
    assert barnabas("consume", f"^{filled}-.$", "-e").lines == ["other"]


def test_an_empty_topic_has_an_end(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    assert barnabas("consume", topic, "--exit") == (0, "", "")


def test_group_resumes_at_its_committed_offset(barnabas: Command, filled: str) -> None:
    first = barnabas("consume", filled, "-g", filled, "-n", "7").lines
    second = barnabas("consume", filled, "-g", filled, "-e").lines
    assert len(first) == 7
    assert len({*first, *second}) == 12
    assert barnabas("consume", f"^{filled}$", "-g", filled, "-e") == (0, "", "")


def test_new_group_can_start_at_the_end(barnabas: Command, filled: str) -> None:
    assert barnabas("consume", filled, "-g", filled, "-o", "end", "-e") == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["missing", "-e"], "there is no topic missing"),
        (["missing", "-g", "g"], "there is no topic missing"),
        (["^missing", "-e"], "no topic matches ^missing"),
        (["{topic}", "-p", "9", "-e"], "{topic} has partitions 0 to 2, no 9"),
    ],
)
def test_missing_topic_or_partition_is_reported(
    barnabas: Command, filled: str, arguments: list[str], complaint: str
) -> None:
    shown = barnabas("consume", *(argument.format(topic=filled) for argument in arguments))
    assert shown == (1, "", f"barnabas consume: {complaint.format(topic=filled)}\n")


def test_consume_does_not_create_a_missing_topic(barnabas: Command, topic: str) -> None:
    barnabas("consume", topic, "-e")
    assert topic not in barnabas("topic", "list", "-q").lines


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["t", "-o", "soon"], "'soon': write start, end, stored, N, -N, +N, @TIME"),
        (["t", "-o", "1", "-o", "2"], "give one place to begin and one to end"),
        (["t", "-o", "stored"], "requires --group"),
        (["t", "-n", "0"], "'0' is not a number of at least 1"),
        (["t", "-p", "0,x"], "'0,x': write numbers, as 0 or 0,1"),
        (["t", "-g", "g", "-p", "0"], "--group assigns the partitions"),
        (["t", "-g", "g", "-o", "5"], "`barnabas group seek` changes them"),
        (["t", "-f", "%q"], "'%q' is not a format verb"),
        (["t", "-f", r"%v\q"], r"consume: --format: \q is not an escape; use \n"),
        (["t", "-D", r"\q"], r"argument -D/--delimiter: \q is not an escape; use \n"),
        (["t", "-K", r"\q"], r"argument -K/--key-delimiter: \q is not an escape; use \n"),
        (["t", "-f", "%v", "--json"], "choose one of them"),
        ([], "the following arguments are required: TOPIC"),
    ],
)
def test_wrong_call_is_reported_without_a_connection(call: Command, arguments: list[str], complaint: str) -> None:
    status, out, err = call("consume", *arguments)
    assert (status, out) == (2, "")
    assert complaint in err


@pytest.mark.parametrize("more", [[], ["-e"], ["-c", "1"]])
def test_an_offset_beyond_the_end_is_an_error(barnabas: Command, filled: str, more: list[str]) -> None:
    shown = barnabas("consume", filled, "-o", "1000000", *more)
    assert (shown.status, shown.out) == (1, "")
    assert re.search(rf"barnabas consume: {filled}-0 ends at \d+.*, before offset 1000000\n", shown.err)


@pytest.mark.parametrize("pattern", [False, True])
def test_internal_topic_is_not_consumed(barnabas: Command, transaction_state: str, pattern: bool) -> None:
    name = f"^{transaction_state}$" if pattern else transaction_state
    why = (
        f"{transaction_state} is an internal topic, which is not consumed: on a broker's machine, "
        f"`barnabas log dump DATA-DIRECTORY -t {transaction_state}` prints its records"
    )
    why = f"no topic matches {name} but {why}" if pattern else why
    assert barnabas("consume", name, "-e") == (1, "", f"barnabas consume: {why}\n")
    if not pattern:
        assert barnabas("consume", name, "-e", "-g", "g") == (1, "", f"barnabas consume: {why}\n")
