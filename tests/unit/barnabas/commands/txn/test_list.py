from __future__ import annotations

import json
import re

import pytest

from barnabas.commands._transactions import STATES
from tests.unit.barnabas.conftest import Command, Halved


def test_transactional_ids_are_listed_with_their_coordinators_and_states(barnabas: Command, ongoing: str) -> None:
    header, *rows = [line.split() for line in barnabas("txn", "list").lines]
    assert header == ["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE", "DURATION"]
    (row,) = [row for row in rows if row[0] == ongoing]
    assert (row[1], row[3]) == ("1", "Ongoing")
    assert re.fullmatch(r"\d+s", row[4])


def test_id_without_an_open_transaction_has_no_duration(barnabas: Command, idle: str) -> None:
    (row,) = json.loads(barnabas("txn", "list", "--pattern", idle, "--json").out)
    assert row["duration_ms"] is None
    assert barnabas("txn", "list", "--pattern", idle).lines[1].split()[3:] == ["Empty", "-"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (["--state", "ongoing"], True),
        (["-s", "CompleteCommit", "-s", "Ongoing"], True),
        (["-s", "Empty"], False),
        (["--pattern", ".*{name}"], True),
        (["--pattern", "{name}."], False),
        (["--longer-than", "1ms", "--state", "Ongoing"], True),
        (["--longer-than", "1h", "--state", "Ongoing"], False),
        (["--producer-id", "{producer}"], True),
        (["--producer-id", "999999999"], False),
    ],
)
def test_transactional_ids_are_filtered(barnabas: Command, ongoing: str, filters: list[str], found: bool) -> None:
    (one,) = [row for row in json.loads(barnabas("txn", "ls", "--json").out) if row["transactional_id"] == ongoing]
    given = [text.format(name=ongoing, producer=one["producer_id"]) for text in filters]
    listed = json.loads(barnabas("txn", "list", "--json", *given).out)
    assert (ongoing in [row["transactional_id"] for row in listed]) == found


def test_ids_are_filtered_by_the_duration_of_an_open_transaction(barnabas: Command, idle: str) -> None:
    pattern = ["--pattern", idle, "--longer-than", "0ms", "--json"]
    assert barnabas("txn", "list", *pattern) == (0, "[]\n", "")
    (row,) = json.loads(barnabas("txn", "list", *pattern, "--state", "Empty").out)
    assert row["transactional_id"] == idle


def test_transactions_of_two_phase_commit_are_listed_as_such(barnabas: Command, ongoing: str, prepared: str) -> None:
    (row,) = json.loads(barnabas("txn", "list", "--two-phase", "--json").out)
    assert (row["transactional_id"], row["state"]) == (prepared, "Ongoing")
    barnabas("txn", "terminate", prepared)
    assert barnabas("txn", "list", "--two-phase", "--json") == (0, "[]\n", "")


def test_transactions_of_two_phase_commit_are_open_ones(call: Command) -> None:
    shown = call("txn", "list", "--two-phase", "--state", "Empty")
    assert (shown.status, shown.out) == (2, "")
    assert "--two-phase lists transactions in state Ongoing only" in shown.err


def test_invalid_pattern_is_an_error(barnabas: Command) -> None:
    status, out, err = barnabas("txn", "list", "--pattern", "a**")
    assert (status, out) == (2, "")
    assert err == "barnabas txn list: 'a**' is not a regular expression of RE2\n"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--state", "Idle"], "'Idle': write one of Empty, Ongoing, "),
        (["--longer-than", "15"], "'15': write a duration as 90s, 15m or 1h30m"),
        (["--longer-than", "-15m"], "'-15m': write a duration as 90s, 15m or 1h30m"),
        (["--producer-id", "-1"], "'-1' is not a number of at least 0"),
    ],
)
def test_invalid_filter_is_refused(call: Command, option: list[str], message: str) -> None:
    status, out, err = call("txn", "list", *option)
    assert (status, out) == (2, "")
    assert message in err


def test_help_explains_each_state(call: Command) -> None:
    lines = call("txn", "list", "--help").lines
    for state in STATES:
        assert [line for line in lines if re.match(rf"  {state} +[a-z]", line)], state


def test_unreachable_broker_is_reported_with_the_list(call: Command, halved: Halved) -> None:
    why = f"broker 1 cannot be reached at {halved.dead} (connection refused)"
    assert call("txn", "list", "--json", "-b", halved.alive) == (1, "[]\n", f"barnabas txn list: {why}\n")


def test_transactional_ids_are_completed(barnabas: Command, ongoing: str) -> None:
    assert barnabas("complete", "txn", "describe", ongoing[:-1]).lines == [ongoing]
