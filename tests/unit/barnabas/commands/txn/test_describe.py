from __future__ import annotations

import json
import re
from typing import Any

import pytest

from barnabas.commands.txn.describe import print_transaction
from tests.unit.barnabas.conftest import Command


def test_open_transaction_is_described_with_its_partitions(barnabas: Command, ongoing: str) -> None:
    shown = barnabas("txn", "describe", ongoing)
    assert (shown.status, shown.err) == (0, "")
    assert re.fullmatch(
        rf"TRANSACTIONAL-ID  {ongoing}\n"
        r"COORDINATOR       1\n"
        r"STATE             Ongoing\n"
        r"PRODUCER-ID       \d+\n"
        r"PRODUCER-EPOCH    \d+\n"
        r"TIMEOUT-MS        50000\n"
        r"STARTED           \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n"
        r"DURATION          \d+s\n"
        r"PARTITIONS        1\n"
        rf"TOPIC +PARTITION\n"
        rf"{ongoing} +1\n",
        shown.out,
    )


def test_producer_without_a_transaction_has_no_start_and_no_partitions(barnabas: Command, idle: str) -> None:
    (described,) = json.loads(barnabas("txn", "describe", idle, "--json").out)
    assert described["state"] == "Empty"
    assert (described["started_ms"], described["duration_ms"], described["partitions"]) == (None, None, [])


def test_unknown_id_is_named_and_the_others_are_described(barnabas: Command, idle: str) -> None:
    status, out, err = barnabas("txn", "describe", "nosuch", idle, "--json")
    assert status == 1
    assert [one["transactional_id"] for one in json.loads(out)] == [idle]
    assert err == "barnabas txn describe: nosuch: there is no such transactional id\n"


@pytest.mark.parametrize("command", ["describe", "terminate"])
def test_mistyped_id_is_answered_with_the_closest_one(barnabas: Command, idle: str, command: str) -> None:
    typed = idle.replace("mistyped", "mytisped")
    shown = barnabas("txn", command, typed)
    why = f"{typed}: there is no such transactional id; did you mean {idle}?"
    assert (shown.status, shown.err) == (1, f"barnabas txn {command}: {why}\n")


@pytest.mark.parametrize("command", ["describe", "terminate"])
def test_empty_id_is_refused(call: Command, command: str) -> None:
    shown = call("txn", command, "")
    assert shown.status == 2
    assert "a transactional id has at least one character" in shown.err


def test_transaction_without_a_timeout_is_one_of_two_phase_commit(capsys: pytest.CaptureFixture[str]) -> None:
    shown: dict[str, Any] = {
        "transactional_id": "t",
        "coordinator": 1,
        "state": "Ongoing",
        "producer_id": 5,
        "producer_epoch": 0,
        "timeout_ms": 2**31 - 1,
        "started_ms": 1_767_323_045_000,
        "duration_ms": 90_061_000,
        "partitions": [],
    }
    print_transaction(shown)
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["TIMEOUT-MS"] == "none (two-phase commit)"
    assert (lines["STARTED"], lines["DURATION"]) == ("2026-01-02T03:04:05Z", "1d1h")
