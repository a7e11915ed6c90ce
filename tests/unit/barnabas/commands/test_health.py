import json
import socket
import subprocess
import sys
import time

import pytest

from tests.broker_process import BrokerProcess

CHECKS = ["reachable", "controller", "fenced", "leaders", "in sync", "coordinator"]


def test_a_cluster_that_is_well(barnabas, topic):
    barnabas("topic", "create", topic)
    said = barnabas("health")
    assert said.status == 0
    assert said.lines[0] == "healthy: yes"
    told = json.loads(barnabas("health", "--json").out)
    assert told["healthy"] is True
    assert [check["check"] for check in told["checks"]] == CHECKS


def test_nothing_is_created_by_asking(tmp_path, call):
    with BrokerProcess(tmp_path) as broker:
        assert call("health", "-b", broker.bootstrap).status == 0
        assert call("topic", "list", "-q", "--internal", "-b", broker.bootstrap).out == ""


@pytest.fixture
def free() -> str:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{bound.getsockname()[1]}"


def test_a_broker_that_does_not_answer_is_not_well(call, free):
    status, out, err = call("health", "-b", free)
    assert (status, err) == (1, "")
    assert out.startswith("healthy: no\n")
    assert f"no broker answers at {free} (connection refused)" in out


def test_it_is_waited_for_no_longer_than_told(call, free):
    began = time.monotonic()
    said = call("health", "-b", free, "--exit-when-healthy", "--interval", "0.05", "--give-up", "0.3")
    assert said.status == 1
    assert said.out.count("healthy: no") == 1  # it is said once, for nothing has changed
    assert time.monotonic() - began < 20


def test_it_ends_once_the_broker_is_there(tmp_path, free):
    command = [sys.executable, "-m", "barnabas", "health", "-b", free, "--watch", "--exit-when-healthy"]
    waiting = subprocess.Popen([*command, "--interval", "0.05"], stdout=subprocess.PIPE, text=True)
    assert waiting.stdout.readline() == "healthy: no\n"
    broker = BrokerProcess(tmp_path)
    broker.bootstrap = free
    with broker:
        out, _ = waiting.communicate(timeout=30)
    assert waiting.returncode == 0
    assert "healthy: yes\n" in out
