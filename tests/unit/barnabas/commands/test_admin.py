"""The admin client with an unreachable broker; the output of each command is in its own test."""

from __future__ import annotations

import argparse

import pytest

from barnabas.commands._client import admin
from barnabas.commands._output import CommandError
from tests.broker_process import BrokerProcess
from tests.unit.barnabas.conftest import Halved


def options(*brokers: str) -> argparse.Namespace:
    return argparse.Namespace(brokers=list(brokers), settings=[], settings_file=None, timeout=2.0)


def test_listed_broker_that_does_not_respond_is_named(halved: Halved) -> None:
    with admin(options(halved.alive)) as client:
        assert client.listed() == [1, 2]
        assert client.away() == {1: f"broker 1 cannot be reached at {halved.dead} (connection refused)"}
        assert client.away() == {1: f"broker 1 cannot be reached at {halved.dead} (connection refused)"}
        assert client.answering() == [2]


def test_requests_for_any_broker_go_to_a_reachable_broker(halved: Halved) -> None:
    for _ in range(10):  # a random choice would pick the other broker in half of the rounds
        with admin(options(halved.alive)) as client:
            assert len(client.describe_cluster()["brokers"]) == 2


def test_failed_request_for_one_broker_names_the_broker(halved: Halved) -> None:
    with admin(options(halved.alive)) as client, pytest.raises(CommandError, match=r"^broker 1 cannot be reached at "):
        client.describe_log_dirs(brokers=[1])


def test_controller_requests_are_forwarded_by_any_broker(shared_broker: BrokerProcess, topic: str) -> None:
    with admin(options(shared_broker.bootstrap)) as client:
        created = client.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})["topics"]
    assert [(one["name"], one["error_code"]) for one in created] == [(topic, 0)]
