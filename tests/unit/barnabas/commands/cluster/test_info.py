from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from barnabas.commands.cluster.info import _ranges
from tests.broker_process import COMMAND, BrokerProcess
from tests.typed import present
from tests.unit.barnabas.conftest import Command, Halved


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


def test_cluster_problems_are_listed(call: Command, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, {"min.insync.replicas": 2}) as broker:
        place = ("-b", broker.bootstrap)
        call("topic", "create", "short:1", *place)
        call("topic", "create", "well:1", "-c", "min.insync.replicas=1", *place)
        cluster = json.loads(call("cluster", "--json", *place).out)
        assert cluster["problems"] == [{"partition": "short-0", "problem": "under min ISR"}]
        assert cluster["under_min_isr"] == 1
        assert "short-0    under min ISR" in call("cluster", *place).out


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
        f"barnabas cluster info: broker 1 cannot be reached at {halved.dead} (connection refused)\n"
        "barnabas cluster info: no controller answers: it takes more than half of the nodes 1; none can be reached\n",
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
