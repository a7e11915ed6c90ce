"""The commands that use the control API: `clock`, `fault` and `trace`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from barnabas.commands.fault import wait
from barnabas.testing import Cluster
from tests.broker_process import COMMAND
from tests.repo.tree import ROOT
from tests.typed import present
from tests.unit.barnabas.conftest import Command


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as running:
        yield running


@pytest.fixture
def controlled(cluster: Cluster, call: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("BARNABAS_CONTROL", cluster.environment["BARNABAS_CONTROL"])
    return call


def produce(cluster: Cluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "billing", "log_level": 0})
    producer.produce(topic, b"a")
    assert producer.flush(60) == 0


def test_clocks_of_all_brokers_are_advanced_and_shown(controlled: Command) -> None:
    before = json.loads(controlled("clock", "--json").out)
    assert controlled("clock", "advance", "25h") == (0, "advanced 2 brokers\n", "")
    after = json.loads(controlled("clock", "--json").out)
    assert [new["clock_ms"] - old["clock_ms"] for old, new in zip(before, after, strict=True)] == [25 * 3_600_000] * 2
    assert "1 day, 1:00:00" in controlled("clock", "show").out


def test_a_rule_is_added_listed_with_its_hits_and_removed(controlled: Command, cluster: Cluster) -> None:
    topic = cluster.topic().name
    rule = ("--topic", topic, "--error", "NOT_LEADER_OR_FOLLOWER", "--count", "1")
    assert controlled("fault", "add", "Produce", *rule) == (0, "added to 2 brokers\n", "")
    produce(cluster, topic)
    rules = json.loads(controlled("fault", "list", "--json").out)
    assert sum(one["hits"] for one in rules) == 1
    assert "NOT_LEADER_OR_FOLLOWER" in controlled("fault", "list").out
    assert controlled("fault", "clear") == (0, "removed 2 rules\n", "")
    assert json.loads(controlled("fault", "list", "--json").out) == []


def test_a_rule_holds_requests_until_they_are_released(controlled: Command, cluster: Cluster) -> None:
    topic = cluster.topic().name
    assert controlled("fault", "add", "Produce,Fetch", "--topic", f"other,{topic}", "--hold", "before").status == 0
    assert controlled("fault", "add", "Heartbeat", "--group", "g", "--delay-ms", "1", "--when", "after").status == 0
    rules = json.loads(controlled("fault", "list", "--json").out)
    assert [(one["api"], one["action"]) for one in rules[:2]] == [
        (["Produce", "Fetch"], {"hold": "before"}),
        ("Heartbeat", {"delay_ms": 1, "when": "after"}),
    ]
    held, other = (str(one["id"]) for one in rules[:2])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    producer.produce(topic, b"a", partition=0)
    assert controlled("fault", "wait", held) == (0, "1 hit\n", "")
    another = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    another.produce(topic, b"b", partition=0)
    assert controlled("fault", "wait", held, "--hits", "2") == (0, "2 hits\n", "")
    assert controlled("fault", "release", other) == (0, "released 0 requests\n", "")
    assert controlled("fault", "release", held, "--count", "1") == (0, "released 1 request\n", "")
    assert producer.flush(60) == 0
    assert controlled("fault", "release", held) == (0, "released 1 request\n", "")
    assert another.flush(60) == 0
    late = controlled("fault", "wait", held, "--hits", "3", "--timeout", "0s")
    assert late.status == 1
    assert "3 hits expected within 0 s, 2 seen; `barnabas trace` shows the last requests" in late.err
    assert controlled("fault", "clear", held) == (0, "removed 2 rules\n", "")
    unknown = controlled("fault", "release", held)
    assert (unknown.status, f"there is no rule {held}; there are: {other}\n" in unknown.err) == (1, True)
    assert controlled("fault", "clear") == (0, "removed 2 rules\n", "")
    assert "there is no rule to wait for; `barnabas fault add` adds one" in controlled("fault", "wait").err


def test_a_wait_may_be_longer_than_brokers_let_a_request_wait(
    controlled: Command, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.topic().name
    wait_for_one = wait._wait_for_one

    def produce_and_wait(*arguments: Any) -> None:
        produce(cluster, topic)
        wait_for_one(*arguments)

    monkeypatch.setattr(wait, "_wait_for_one", produce_and_wait)
    controlled("fault", "add", "Produce", "--topic", topic, "--delay-ms", "1")
    assert controlled("fault", "wait", "--timeout", "1h") == (0, "1 hit\n", "")
    controlled("fault", "clear")


def test_a_rule_of_a_command_has_what_a_rule_of_the_api_has(controlled: Command) -> None:
    shown = controlled("fault", "add", "--help").out
    bodies = yaml.safe_load((ROOT / "docs/control-api.yaml").read_text())["components"]["schemas"]
    fields = {*bodies["FaultBody"]["properties"], *bodies["FaultAction"]["properties"]} - {"api", "action"}
    assert [name for name in sorted(fields) if f"--{name.replace('_', '-')} " not in shown] == []
    rule = ("--broker", "2", "--sender", "any", "--partition", "0,1", "--topic", "t", "--corrupt", "body")
    assert controlled("fault", "add", "Fetch", *rule).status == 0
    (one, _) = json.loads(controlled("fault", "list", "--json").out)
    assert (one["broker"], one["sender"], one["partition"]) == (2, "any", [0, 1])
    controlled("fault", "clear")


def test_a_trace_has_the_requests_of_a_client_an_api_and_a_topic(controlled: Command, cluster: Cluster) -> None:
    topic = cluster.topic().name
    produce(cluster, topic)
    query = ("--client-id", "billing", "--api", "Produce", "--topic", topic)
    (line,) = controlled("trace", *query).out.splitlines()
    assert "billing: Produce v" in line
    assert json.loads(controlled("trace", *query, "--json").out)["request"]["acks"] == -1
    assert controlled("trace", *query, "--limit", "0").out == ""


def test_a_trace_that_follows_prints_requests_as_they_come_until_the_brokers_end() -> None:
    with Cluster(2) as cluster:
        topic = cluster.topic().name
        produce(cluster, topic)
        command = [*COMMAND, "trace", "--follow", "--api", "Produce"]
        environment = os.environ | {"BARNABAS_CONTROL": cluster.environment["BARNABAS_CONTROL"]}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as trace:
            assert "billing: Produce v" in present(trace.stdout).readline()
            produce(cluster, topic)
            assert "billing: Produce v" in present(trace.stdout).readline()
            for broker in cluster.brokers:
                broker.stop()
            trace.wait(30)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("clock", "advance", "soon"), 2, "'soon': write a duration as 90s, 15m or 1h30m"),
        (("fault", "add", "Produce"), 2, "one of the arguments --error --delay-ms"),
        (("fault", "add", "Prodce", "--error", "UNKNOWN_SERVER_ERROR"), 1, "did you mean Produce?"),
        (("fault", "add", "Produce", "--error", "NO_SUCH"), 1, "NO_SUCH"),
        (
            ("fault", "add", "Heartbeat", "--topic", "t", "--delay-ms", "1"),
            1,
            "topic: a rule for Heartbeat cannot have one; ",
        ),
        (("fault", "add", "Fetch", "--partition", "x", "--delay-ms", "1"), 2, "'x': write numbers, as 0,1,2"),
        (("fault", "add", "Produce", "--hold", "after", "--when", "after"), 1, "it belongs to error and delay_ms"),
        (("fault", "wait", "--timeout", "soon"), 2, "'soon': write a duration"),
        (("trace", "--api", "Prodce"), 1, "did you mean Produce?"),
        (("trace", "--control", "127.0.0.1:9"), 2, "write it as http://:TOKEN@HOST:PORT"),
        (("trace", "--control", "http://:x@127.0.0.1:99999"), 2, "write it as http://:TOKEN@HOST:PORT"),
        (("trace", "--control", "http://:t@127.0.0.1:9"), 1, "127.0.0.1:9 does not answer"),
    ],
)
def test_what_is_wrong_is_named(controlled: Command, words: tuple[str, ...], status: int, message: str) -> None:
    shown = controlled(*words)
    assert shown.status == status
    assert message in shown.err


def test_a_missing_control_api_is_named(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BARNABAS_CONTROL", raising=False)
    shown = call("clock")
    assert shown.status == 2
    assert "no control API is named" in shown.err
    monkeypatch.setenv("BARNABAS_CONTROL", "")
    assert call("clock") == shown
    monkeypatch.setenv("BARNABAS_CONTROL", "http://127.0.0.1:9")
    assert "$BARNABAS_CONTROL: http://127.0.0.1:9: write it as http://:TOKEN@HOST:PORT" in call("clock").err
