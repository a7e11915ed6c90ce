from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from barnabas.commands.cluster.info import _ranges
from tests.broker_process import COMMAND, BrokerProcess
from tests.typed import present
from tests.unit.barnabas.conftest import Command, Halved, Leaderless


def test_the_cluster_is_shown(barnabas: Command, topic: str, shared_broker: BrokerProcess) -> None:
    barnabas("topic", "create", f"{topic}:2")
    shown = barnabas("cluster")
    assert (shown.status, shown.err) == (0, "")
    host, port = shared_broker.bootstrap.split(":")
    assert any(line.split() == ["1", host, port, "-", "yes", "no", "yes"] for line in shown.lines)
    cluster = json.loads(barnabas("cluster", "info", "--json").out)
    assert cluster["controller"] == 1
    assert cluster["partitions"] >= 2
    assert cluster["topics"] == len(barnabas("topic", "list", "-q").lines)
    everything = len(barnabas("topic", "list", "-q", "--internal").lines)
    assert cluster["topics"] + cluster["internal_topics"] == everything
    assert (cluster["without_leader"], cluster["under_min_isr"], cluster["under_replicated"]) == (0, 0, 0)
    assert [(node["node"], node["status"], node["lag"]) for node in cluster["controllers"]] == [(1, "leader", 0)]
    assert {"feature": "metadata.version", "finalized": 30, "supported": "30-30"} in cluster["features"]


def test_cluster_problems_are_listed(call: Command, leaderless: Leaderless) -> None:
    place = ("-b", leaderless.bootstrap)
    cluster = json.loads(call("cluster", "--json", *place).out)
    assert cluster["problems"] == [{"partition": partition, "problem": "offline"} for partition in leaderless.lost]
    assert cluster["without_leader"] == len(leaderless.lost)
    assert any(line.split()[-1:] == ["offline"] for line in call("cluster", *place).lines)


def test_min_isr_beyond_the_number_of_replicas_is_no_problem(call: Command, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, {"min.insync.replicas": 2}) as broker:
        place = ("-b", broker.bootstrap)
        call("topic", "create", "short:1", *place)
        assert call("produce", "short", *place, stdin=b"accepted\n").status == 0
        cluster = json.loads(call("cluster", "--json", *place).out)
        assert (cluster["problems"], cluster["under_min_isr"]) == ([], 0)


def test_partitions_in_a_row_with_one_problem_share_a_row() -> None:
    problems = [
        ("t-0", "a"),
        ("t-1", "a"),
        ("t-2", "b"),
        ("u-1-3", "b"),
        ("u-1-4", "b"),
        ("u-1-5", "b"),
        ("u-1-7", "b"),
    ]
    rows = _ranges([{"partition": partition, "problem": problem} for partition, problem in problems])
    assert [(row["partition"], row["problem"]) for row in rows] == [
        ("t-0 to t-1", "a"),
        ("t-2", "b"),
        ("u-1-3 to u-1-5", "b"),
        ("u-1-7", "b"),
    ]


def test_unreachable_broker_and_lost_controller_are_reported_below_the_known_state(
    call: Command, halved: Halved
) -> None:
    shown = call("cluster", "-b", halved.alive)
    (dead_host, dead_port), (host, port) = halved.dead.split(":"), halved.alive.split(":")
    words = [line.split() for line in shown.lines]
    assert ["1", dead_host, dead_port, "-", "no", "no", "no"] in words
    assert ["2", host, port, "-", "no", "no", "yes"] in words
    for fact in ("CONTROLLER", "EPOCH", "WITHOUT-LEADER", "UNDER-MIN-ISR", "UNDER-REPLICATED"):
        assert [fact, "not", "known"] in words
    reported = json.loads(call("cluster", "-b", halved.alive, "--json").out)
    assert (reported["without_leader"], reported["under_min_isr"], reported["under_replicated"]) == (None, None, None)
    assert (shown.status, shown.err) == (
        1,
        f"barnabas cluster: broker 1 cannot be reached at {halved.dead} (connection refused)\n"
        "barnabas cluster: no controller answers: it takes more than half of the nodes 1; none can be reached\n",
    )


def test_features_are_shown_on_request(barnabas: Command) -> None:
    assert "FEATURE" not in barnabas("cluster").out
    assert "metadata.version" in barnabas("cluster", "--verbose").out


def test_watch_repeats_the_output(shared_broker: BrokerProcess) -> None:
    command = [*COMMAND, "cluster", "--watch", "0.01", "-b", shared_broker.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        firsts = (line for line in present(watching.stdout) if line.startswith("ID "))
        assert next(firsts) == next(firsts)
        watching.send_signal(signal.SIGINT)
        present(watching.stdout).read()
    assert watching.returncode == 0
