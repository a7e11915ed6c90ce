"""Transactions for the commands; the output of each command is in its own test."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import pytest

import barnabas.commands._transactions as module
from barnabas.commands._client import admin
from barnabas.commands._transactions import (
    HANGING,
    age_text,
    describe,
    holder,
    not_listed,
    open_transactions,
    retried,
    time_text,
)
from tests.broker_process import BrokerProcess


def options(broker: BrokerProcess) -> argparse.Namespace:
    return argparse.Namespace(brokers=[broker.bootstrap], settings=[], settings_file=None, timeout=10.0)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (None, None),
        (-5, "0s"),
        (999, "0s"),
        (59_999, "59s"),
        (60_000, "1m0s"),
        (3_723_000, "1h2m"),
        (90_000_000, "1d1h"),
    ],
)
def test_durations_have_their_two_largest_units(duration_ms: int | None, text: str | None) -> None:
    assert age_text(duration_ms) == text


def test_times_are_in_utc() -> None:
    assert time_text(1_767_323_045_999) == "2026-01-02T03:04:05Z"
    assert time_text(-1) is None


@pytest.mark.parametrize(
    ("name", "state", "text"),
    [
        ("payments", "Ongoing", "the transaction of payments"),
        (None, None, "the transaction of producer 7"),
        (
            "payments",
            HANGING,
            "the hanging transaction of producer 7, which `barnabas txn abort a-b -p 12 -o 5` aborts",
        ),
    ],
)
def test_holder_is_named_with_what_aborts_it(name: str | None, state: str | None, text: str) -> None:
    assert holder("a-b-12", {"transactional_id": name, "state": state, "producer_id": 7, "start": 5}) == text


def test_partitions_with_an_error_do_not_hide_the_others(shared_broker: BrokerProcess, topic: str) -> None:
    from kafka import TopicPartition

    with admin(options(shared_broker)) as client:
        client.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
        found, problems = open_transactions(client, [TopicPartition(topic, index) for index in (0, 1)])
    assert found == []
    assert problems == [f"{topic}-1: there is no such topic or partition"]


def test_id_that_no_coordinator_has_is_unknown(shared_broker: BrokerProcess) -> None:
    with admin(options(shared_broker)) as client:
        assert describe(client, ["nosuch", "nosuch"]) == {"nosuch": "there is no such transactional id"}


@pytest.mark.parametrize("errors", [0, 2, sys.maxsize])
def test_request_is_repeated_while_a_coordinator_is_loading(monkeypatch: pytest.MonkeyPatch, errors: int) -> None:
    from kafka.errors import CoordinatorLoadInProgressError

    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

        def sleep(self, duration_s: float) -> None:
            self.now += duration_s

    class Client:
        config = {"bootstrap_timeout_ms": 1000}  # noqa: RUF012

    left = errors

    def request() -> str:
        nonlocal left
        left -= 1
        if left >= 0:
            raise CoordinatorLoadInProgressError
        return "done"

    clock: Any = Clock()
    client: Any = Client()
    monkeypatch.setattr(module, "time", clock)
    if errors == sys.maxsize:
        with pytest.raises(CoordinatorLoadInProgressError):
            retried(client, request)
        assert 1 <= clock.now <= 1.2
    else:
        assert retried(client, request) == "done"


def test_coordinators_that_do_not_answer_are_reported() -> None:
    led: dict[str, Any] = {"partition_index": 0, "leader_id": 1, "error_code": 0}
    lost: dict[str, Any] = {"partition_index": 1, "leader_id": -1, "error_code": 5}
    topic: dict[str, Any] = {"name": "__transaction_state", "error_code": 0, "partitions": [led, lost]}
    why = "the transactions of {} of __transaction_state are unknown: no coordinator answers"
    assert not_listed([{**topic, "partitions": [led]}], []) is None
    assert not_listed([topic], []) == why.format("1 partition")
    assert not_listed([topic], [1]) == why.format("2 partitions")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (3, None),
        (29, "the coordinators are unknown: the user lacks DESCRIBE on topic __transaction_state"),
        (5, "the coordinators are unknown: __transaction_state: "),
    ],
)
def test_coordinators_are_unknown_if_their_topic_cannot_be_described(code: int, why: str | None) -> None:
    topic: dict[str, Any] = {"name": "__transaction_state", "error_code": code, "partitions": []}
    found = not_listed([topic], [])
    assert found is None if why is None else (found or "").startswith(why)
