"""Partitions of a failed log directory: the commands say so, and end."""

from __future__ import annotations

import argparse
import subprocess

import pytest

from barnabas.commands import _reading, _sending
from barnabas.commands._output import CommandError
from barnabas.commands._unserved import why_quiet
from tests.broker_process import COMMAND
from tests.typed import present
from tests.unit.barnabas.conftest import Command, Half, Halved, Leaderless


def test_what_is_asked_for_and_cannot_be_served_is_named(half: Half) -> None:
    options = argparse.Namespace(brokers=[half.bootstrap], settings=[], settings_file=None, timeout=2.0)
    lost, kept = half.lost, sorted({0, 1, 2, 3} - set(half.lost))
    with pytest.raises(CommandError, match=rf"^KAFKA_STORAGE_ERROR: t/{lost[0]}, t/{lost[1]} cannot be served"):
        why_quiet(options, ["^t"])
    with pytest.raises(CommandError, match=rf"^KAFKA_STORAGE_ERROR: t/{lost[1]} cannot"):
        why_quiet(options, ["t"], [kept[0], lost[1]])
    assert why_quiet(options, ["t"], kept) is None


def test_what_is_led_by_a_broker_that_is_away_is_told_and_may_come_back(halved: Halved) -> None:
    options = argparse.Namespace(brokers=[halved.alive], settings=[], settings_file=None, timeout=2.0)
    why = f"broker 1 cannot be reached at {halved.dead} (connection refused)"
    assert why_quiet(options, ["t"]) == f"{', '.join(halved.lost)} cannot be served: {why}"


def test_what_nobody_leads_is_told(call: Command, leaderless: Leaderless, monkeypatch: pytest.MonkeyPatch) -> None:
    options = argparse.Namespace(brokers=[leaderless.bootstrap], settings=[], settings_file=None, timeout=2.0)
    why = f"no broker leads {', '.join(leaderless.lost)}"
    assert why_quiet(options, ["t"]) == why
    monkeypatch.setattr(_reading, "OFFSETS_MS", 500)
    assert call("consume", "t", "-e", "-b", leaderless.bootstrap) == (1, "", f"barnabas consume: {why}\n")


def test_a_lost_controller_is_told_of_where_the_leaders_are_there(halved: Halved) -> None:
    options = argparse.Namespace(brokers=[halved.alive], settings=[], settings_file=None, timeout=2.0)
    kept = [int(name.removeprefix("t/")) for name in halved.led]
    assert present(why_quiet(options, ["t"], kept)).startswith("no controller answers")


def test_nobody_can_tell_where_no_broker_can_be_asked(halved: Halved) -> None:
    options = argparse.Namespace(brokers=[halved.dead], settings=[], settings_file=None, timeout=2.0)
    assert why_quiet(options, ["t"]) is None


def test_reading_ends_with_the_reason(call: Command, half: Half) -> None:
    index = str(half.lost[0])
    said = call("consume", "t", "-p", index, "-b", half.bootstrap)
    assert (said.status, f"KAFKA_STORAGE_ERROR: t/{index}" in said.err) == (1, True)


@pytest.mark.parametrize("which", [[], ["-g", "g"]])
def test_reading_what_nobody_leads_beside_what_is_led_ends_with_the_reason(
    call: Command, half: Half, monkeypatch: pytest.MonkeyPatch, which: list[str]
) -> None:
    monkeypatch.setattr(_reading, "OFFSETS_MS", 500)
    said = call("consume", "t", "-e", *which, "-b", half.bootstrap)
    assert (said.status, f"KAFKA_STORAGE_ERROR: t/{half.lost[0]}" in said.err) == (1, True)


def test_reading_what_is_led_by_a_broker_that_is_away_ends_with_the_reason(
    call: Command, halved: Halved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_reading, "OFFSETS_MS", 500)
    said = call("consume", "t", "-e", "-b", halved.alive)
    assert said.status == 1
    assert said.err.startswith(
        f"barnabas consume: {', '.join(halved.lost)} cannot be served: broker 1 cannot be reached"
    )


@pytest.mark.parametrize("most", [_sending.MAX_PENDING, 1])
def test_writing_ends_with_the_reason(call: Command, half: Half, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(_sending, "QUIET_S", 0.5)
    monkeypatch.setattr(_sending, "MAX_PENDING", most)
    lost, kept = half.lost[0], min({0, 1, 2, 3} - set(half.lost))
    said = call("produce", "t", "-p", str(lost), "-b", half.bootstrap, stdin=b"1\n2\n3\n")
    assert (said.status, f"barnabas produce: KAFKA_STORAGE_ERROR: t/{lost} cannot" in said.err) == (1, True)
    assert call("produce", "t", "-p", str(kept), "-b", half.bootstrap, stdin=b"1\n2\n3\n") == (0, "", "")


def test_partitions_that_are_led_are_read_and_the_others_named(call: Command, leaderless: Leaderless) -> None:
    (led, *_) = sorted({f"t/{index}" for index in range(4)} - set(leaderless.lost))
    place = ("-b", leaderless.bootstrap)
    assert call("produce", "t", "-p", led.removeprefix("t/"), *place, stdin=b"1\n2\n").status == 0
    said = call("consume", "t", "-e", *place)
    assert (said.status, said.out) == (1, "1\n2\n")
    assert said.err.endswith(f"barnabas consume: no broker leads {', '.join(leaderless.lost)}\n")


def test_who_waits_for_a_controller_is_told_that_none_answers(halved: Halved) -> None:
    command = [*COMMAND, "topic", "create", "new", "-b", halved.alive]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as creating:
        why = "no controller answers: it takes more than half of the nodes 1; none can be reached; waiting for it"
        assert present(creating.stderr).readline() == f"barnabas topic create: {why}\n"
        creating.kill()
