from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from barnabas.commands import health
from barnabas.commands.cluster import quorum
from tests.broker_process import COMMAND, BrokerProcess, free_address
from tests.typed import present
from tests.unit.barnabas.conftest import Command, Half, Halved, Leaderless, Shown

CHECKS = ["reachable", "controller", "fenced", "leaders", "in sync", "log dirs", "served", "coordinator"]


def test_healthy_cluster(barnabas: Command, topic: str) -> None:
    barnabas("topic", "create", topic)
    shown = barnabas("health")
    assert shown.status == 0
    assert shown.lines[0] == "healthy: yes"
    reported = json.loads(barnabas("health", "--json").out)
    assert reported["healthy"] is True
    assert [check["check"] for check in reported["checks"]] == CHECKS


def test_failed_log_directory_and_its_partitions_are_reported(call: Command, half: Half) -> None:
    shown = call("health", "-b", half.bootstrap, "--json")
    checks = {check["check"]: (check["ok"], check["detail"]) for check in json.loads(shown.out)["checks"]}
    assert shown.status == 1
    assert checks["log dirs"][0] is False
    assert checks["log dirs"][1].endswith("/second")
    assert checks["served"] == (False, ", ".join(f"t-{index}" for index in half.lost))
    problems = {check["check"]: check["problems"] for check in json.loads(shown.out)["checks"]}
    assert problems["served"] == [f"t-{index}" for index in half.lost]
    assert problems["reachable"] == []
    with urllib.request.urlopen(f"http://{half.metrics}/readyz") as page:
        ready, failed = page.read().decode().splitlines()
    assert ready == "ready"
    assert "/second failed: " in failed
    assert "[Errno" not in failed


def test_unloadable_groups_are_reported_without_waiting(tmp_path: Path, call: Command) -> None:
    settings = {"offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.ms": 0}
    with BrokerProcess(tmp_path, settings) as broker:
        place = ("-b", broker.bootstrap)
        call("topic", "create", "t", *place)
        call("produce", "t", *place, stdin=b"a\n")
        assert call("consume", "t", "-g", "g", "-c", "1", *place).out == "a\n"
        broker.stop()
        file = broker.data_dir / "__consumer_offsets-0" / f"{0:020}.log"
        data = file.read_bytes()
        file.write_bytes(data[:61] + bytes([data[61] ^ 1]) + data[62:])
        broker.start()
        why = "__consumer_offsets-0 cannot be loaded: CORRUPT_MESSAGE"
        assert why in broker.log.read_text()
        shown = call("health", *place)
        assert shown.status == 1
        assert "coordinator  no   a broker cannot load some partitions" in shown.out
        described = call("group", "describe", "g", *place)
        assert described.status == 1
        assert f"g: The groups of {why}" in described.err
        listed = call("group", "list", *place)
        assert (listed.status, listed.out) == (1, "")
        assert "cannot load some partitions" in listed.err
        read = call("consume", "t", "-g", "g", "-c", "1", *place)
        assert read.status == 1
        assert "the broker failed to do this; see its log" in read.err


class Controllers:
    """Processes of up to three controller-only nodes, on free ports."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._addresses = {node: free_address() for node in (1, 2, 3)}
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self.voters = ",".join(f"{node}@{address}" for node, address in self._addresses.items())

    def start(self, node: int) -> None:
        settings = {
            "node.id": node,
            "process.roles": "controller",
            "controller.quorum.voters": self.voters,
            "listeners": f"CONTROLLER://{self._addresses[node]}",
        }
        with open(self._folder / f"{node}.log", "ab") as log:
            self._running[node] = subprocess.Popen(
                [*COMMAND, "serve", "--data-dir", str(self._folder / str(node))]
                + [f"-D{name}={value}" for name, value in settings.items()],
                stdout=log,
                stderr=log,
            )

    def kill(self, node: int) -> None:
        process = self._running.pop(node)
        process.kill()
        process.wait()


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[Controllers]:
    made = Controllers(tmp_path)
    yield made
    for node in (1, 2, 3):
        with contextlib.suppress(KeyError):
            made.kill(node)


def test_unstarted_and_killed_controllers_are_reported(
    tmp_path: Path, controllers: Controllers, call: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def until(what: str) -> Shown:
        deadline = time.monotonic() + 60
        while not re.search(what, (shown := call("health", "-b", broker.bootstrap)).out):
            assert time.monotonic() < deadline, shown
        return shown

    for node in (1, 2):
        controllers.start(node)
    settings = {"node.id": 4, "process.roles": "broker", "controller.quorum.voters": controllers.voters}
    with BrokerProcess(tmp_path / "broker", settings | {"controller.listener.names": "CONTROLLER"}) as broker:
        assert until("controller +no +controller 3 does not run, or node [12] cannot be reached from it").status == 1
        controllers.start(3)
        assert until("healthy: yes").status == 0
        monkeypatch.setattr(quorum, "SILENT_S", 2)
        controllers.kill(3)
        assert until(r"controller +no +controller 3 has not fetched for more than 2 s").status == 1
        monkeypatch.setattr(health, "LOOK_MS", 2000)
        controllers.kill(2)
        shown = until("controller +no +no controller answers: it takes more than half of the nodes 1,2,3")
        assert (shown.status, bool(re.search("leaders +no +unknown: no controller answers", shown.out))) == (1, True)


def test_unreachable_broker_and_lost_controller_are_reported_and_the_rest_is_checked(
    call: Command, halved: Halved
) -> None:
    shown = call("health", "-b", halved.alive, "--json")
    checks = {check["check"]: (check["ok"], check["detail"]) for check in json.loads(shown.out)["checks"]}
    assert shown.status == 1
    assert list(checks) == CHECKS
    assert checks["reachable"] == (False, f"broker 1 cannot be reached at {halved.dead} (connection refused)")
    assert checks["controller"] == (
        False,
        "no controller answers: it takes more than half of the nodes 1; none can be reached",
    )
    assert checks["served"] == (True, "all replicas")
    typed = {check["check"]: check for check in json.loads(shown.out)["checks"]}
    assert (typed["reachable"]["nodes"], typed["reachable"]["facts"]) == ([1], {"brokers": 2})
    assert [name for name, check in typed.items() if not check["known"]] == [
        "controller",
        "fenced",
        "leaders",
        "in sync",
    ]
    assert typed["leaders"]["facts"] == {"partitions": 4, "topics": 1}


def test_killed_broker_is_unreachable_after_fencing(call: Command, leaderless: Leaderless) -> None:
    checks = {
        one["check"]: one for one in json.loads(call("health", "-b", leaderless.bootstrap, "--json").out)["checks"]
    }
    assert (checks["fenced"]["nodes"], checks["reachable"]["nodes"]) == ([2], [2])
    (why,) = checks["reachable"]["problems"]
    assert re.fullmatch(r"broker 2 cannot be reached at 127\.0\.0\.1:\d+ \(connection refused\)", why)


def test_give_up_requires_exit_when_healthy_or_watch(call: Command) -> None:
    shown = call("health", "--give-up", "3")
    assert (shown.status, shown.out) == (2, "")
    assert "--give-up requires --exit-when-healthy or --watch" in shown.err


def test_cluster_without_topics_is_reported_as_such(tmp_path: Path, call: Command) -> None:
    with BrokerProcess(tmp_path) as broker:
        assert "leaders      yes  there are no topics" in call("health", "-b", broker.bootstrap).out


def test_the_controller_is_the_one_that_leads_the_quorum(barnabas: Command) -> None:
    assert "controller   yes  node 1" in barnabas("health").out


def test_health_creates_nothing(tmp_path: Path, call: Command) -> None:
    with BrokerProcess(tmp_path) as broker:
        assert call("health", "-b", broker.bootstrap).status == 0
        assert call("topic", "list", "-q", "--internal", "-b", broker.bootstrap).out == ""


@pytest.fixture
def free() -> str:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{bound.getsockname()[1]}"


def test_unreachable_broker_is_unhealthy(call: Command, free: str) -> None:
    status, out, err = call("health", "-b", free)
    assert (status, err) == (1, "")
    assert out.startswith("healthy: no\n")
    assert f"no broker answers at {free} (connection refused)" in out


def test_wait_ends_at_its_timeout(call: Command, free: str) -> None:
    began = time.monotonic()
    shown = call("health", "-b", free, "--exit-when-healthy", "--interval", "0.05", "--give-up", "0.3")
    assert shown.status == 1
    assert shown.out.count("healthy: no") == 1  # printed once, because nothing has changed
    assert time.monotonic() - began < 20


def test_the_last_check_is_at_the_end_of_the_time_to_wait(
    call: Command, free: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(health, "time", SimpleNamespace(monotonic=lambda: now[0], strftime=time.strftime))
    monkeypatch.setattr(health, "sleep_while_read", sleep)
    assert call("health", "-b", free, "-e", "--interval", "4", "--give-up", "10").status == 1
    assert slept == [4, 4, 2]


def test_wait_ends_when_the_broker_is_up(tmp_path: Path, free: str) -> None:
    command = [sys.executable, "-m", "barnabas", "health", "-b", free, "--watch", "--exit-when-healthy"]
    waiting = subprocess.Popen([*command, "--interval", "0.05"], stdout=subprocess.PIPE, text=True)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n", present(waiting.stdout).readline())
    assert present(waiting.stdout).readline() == "healthy: no\n"
    broker = BrokerProcess(tmp_path)
    broker.bootstrap = free
    with broker:
        out, _ = waiting.communicate(timeout=30)
    assert waiting.returncode == 0
    assert "healthy: yes\n" in out


def test_watch_ends_when_its_output_is_closed(shared_broker: BrokerProcess) -> None:
    command = [sys.executable, "-m", "barnabas", "health", "-b", shared_broker.bootstrap, "--watch"]
    watching = subprocess.Popen([*command, "--interval", "3600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = present(watching.stdout), present(watching.stderr)
    while not out.readline().startswith(b"healthy: "):
        pass
    out.close()
    assert (watching.wait(timeout=60), err.read()) == (0, b"")
    err.close()
