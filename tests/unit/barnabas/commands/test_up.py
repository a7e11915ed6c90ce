"""`barnabas up` as a cluster of processes."""

from __future__ import annotations

import json
import os
import re
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing._control import ControlClient
from tests.broker_process import COMMAND
from tests.typed import present
from tests.unit.barnabas.conftest import Command

# A session timeout longer than the test's timeouts: waiting for a session to expire fails the test.
PATIENT = "-Dbroker.session.timeout.ms=600000"
TIMEOUT_S = 60


class Up:
    """One run of `barnabas up`, with its output and log."""

    def __init__(self, *options: str, log: Path, pass_fds: tuple[int, ...] = ()) -> None:
        self.log = log
        with open(log, "wb") as file:
            self.process = subprocess.Popen(
                [*COMMAND, "up", "--listen", "127.0.0.1:0", *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                pass_fds=pass_fds,
            )

    def ready(self) -> dict[str, Any]:
        """Return the ready line for programs."""
        line = present(self.process.stdout).readline()
        assert line, self.shown
        result: dict[str, Any] = json.loads(line)
        return result

    @property
    def shown(self) -> str:
        return self.log.read_text()

    def wait_for_log(self, pattern: str) -> re.Match[str]:
        """Wait for a match in the log, and return the first one."""
        deadline = time.monotonic() + TIMEOUT_S
        while not (found := re.search(pattern, self.shown)):
            assert time.monotonic() < deadline, self.shown
            assert self.process.poll() is None, self.shown
        return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    runs: list[Up] = []

    def start(*options: str, **how: Any) -> Up:
        runs.append(Up(*options, log=tmp_path / f"log{len(runs)}", **how))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
        run.process.communicate(timeout=TIMEOUT_S)


def wait_until_gone(pids: list[int]) -> None:
    """Wait until none of these processes exists; they are not our children."""
    with selectors.DefaultSelector() as selector:
        for pid in pids:
            try:
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ)
            except ProcessLookupError:
                continue
        while selector.get_map():
            ended = selector.select(TIMEOUT_S)
            assert ended, "still there"
            for key, _ in ended:
                selector.unregister(key.fd)
                os.close(key.fd)


def test_three_brokers_serve_one_cluster_after_the_ready_line(
    up: Callable[..., Up], call: Command, tmp_path: Path
) -> None:
    running = up("--json", "--data-dir", str(tmp_path / "data"), "--topic", "t:6", "--topic", "plain")
    reported = running.ready()
    assert [broker["id"] for broker in reported["brokers"]] == [1, 2, 3]
    assert reported["bootstrap"] == ",".join(f"{broker['host']}:{broker['port']}" for broker in reported["brokers"])
    assert [broker["data_dir"] for broker in reported["brokers"]] == [
        str(tmp_path / "data" / str(n)) for n in (1, 2, 3)
    ]
    first, *_, last = reported["bootstrap"].split(",")
    assert call("produce", "t", "-p", "0", "-b", first, stdin=b"a\nb\n").status == 0
    assert call("consume", "t", "-e", "-b", last).out == "a\nb\n"
    described = json.loads(call("topic", "describe", "t", "plain", "--json", "-b", last).out)
    assert {len(topic["partitions"]): {len(one["replicas"]) for one in topic["partitions"]} for topic in described} == {
        6: {3},
        1: {3},
    }
    assert call("config", "get", "topic/t", "min.insync.replicas", "-b", last).out.strip() == "2"
    assert running.stop() == 0
    assert "Traceback" not in running.shown


def test_killed_broker_is_reported_and_the_others_continue(
    up: Callable[..., Up], call: Command, tmp_path: Path
) -> None:
    running = up("--json", "--data-dir", str(tmp_path / "data dir"), "--topic", "t:3")
    victim, *others = running.ready()["brokers"]
    os.kill(victim["pid"], signal.SIGKILL)
    shown = running.wait_for_log(r"barnabas up: broker 1 \(process (\d+)\) was ended by SIGKILL; .*: barnabas (.*)\n")
    assert int(shown[1]) == victim["pid"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((victim["host"], victim["port"]))
    alone = [*COMMAND, "serve", "--listen", "127.0.0.1:0", "--data-dir", victim["data_dir"]]
    refused = subprocess.run(alone, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "belongs to a quorum with voters 1, 2, 3" in refused.stderr
    bootstrap = ",".join(f"{broker['host']}:{broker['port']}" for broker in others)
    assert call("produce", "t", "-X", "acks=all", "-b", bootstrap, stdin=b"a\n").status == 0
    assert call("consume", "t", "-e", "-b", bootstrap).out == "a\n"
    health = call("health", "--json", "-b", bootstrap)
    checks = {check["check"]: check["detail"] for check in json.loads(health.out)["checks"] if not check["ok"]}
    assert (health.status, checks["fenced"]) == (1, "broker 1")
    cluster = json.loads(call("cluster", "--json", "-b", bootstrap).out)
    assert [broker["fenced"] for broker in cluster["brokers"]] == [True, False, False]
    assert {row["problem"] for row in cluster["problems"]} == {"under-replicated"}
    with restarted(running, victim, tmp_path) as again:
        again.terminate()
        again.communicate(timeout=TIMEOUT_S)
    assert again.returncode == 0
    assert running.stop() == 0


@contextmanager
def restarted(running: Up, victim: dict[str, Any], tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run the command that `barnabas up` printed to restart a broker."""
    shown = running.wait_for_log(rf"barnabas up: broker {victim['id']} .*restart it: barnabas (.*)\n")
    with open(tmp_path / "again", "wb") as log:
        command = [*COMMAND, *shlex.split(shown[1])]
        again = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    with again:
        try:
            ready = present(again.stdout).readline()
            assert ready == f"ready: {victim['host']}:{victim['port']}\n", (tmp_path / "again").read_text()
            yield again
        finally:
            again.kill()


def test_control_apis_of_all_brokers_are_in_the_line_and_off_unless_asked_for(up: Callable[..., Up]) -> None:
    running = up("--json", "--ephemeral", "--brokers", "2", "--control", "--test-profile")
    line = running.ready()
    urls = [broker["control"] for broker in line["brokers"]]
    assert line["control"].split(",") == urls
    assert [ControlClient(url).call("GET", "/v1")["node_id"] for url in urls] == [1, 2]
    assert running.stop(signal.SIGINT) == 0
    plain = up("--json", "--ephemeral", "--brokers", "1")
    assert "control" not in json.dumps(plain.ready())
    assert plain.stop(signal.SIGINT) == 0


def test_up_stops_a_broker_that_was_restarted_by_hand(
    up: Callable[..., Up], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    running = up("--json", "--ephemeral", "--brokers", "2")
    _, victim = running.ready()["brokers"]
    os.kill(victim["pid"], signal.SIGKILL)
    with restarted(running, victim, tmp_path) as again:
        assert running.stop(signal.SIGINT) == 0
        assert again.wait(timeout=TIMEOUT_S) == 0
        assert f"barnabas up: broker 2 was restarted by hand (process {again.pid}): stopping it too\n" in running.shown
    assert "Traceback" not in (tmp_path / "again").read_text()
    assert not Path(victim["data_dir"]).parent.exists()


def test_up_runs_while_a_broker_that_was_restarted_by_hand_does(up: Callable[..., Up], tmp_path: Path) -> None:
    running = up("--json", "--data-dir", str(tmp_path / "data"), "--brokers", "2")
    other, victim = running.ready()["brokers"]
    os.kill(victim["pid"], signal.SIGKILL)
    with restarted(running, victim, tmp_path) as again:
        os.kill(other["pid"], signal.SIGKILL)
        running.wait_for_log(r"broker 1 .* was ended by SIGKILL; the others keep running")
        again.kill()
        assert running.end() == 1


def test_ephemeral_data_of_a_restarted_broker_outlive_a_killed_up(
    up: Callable[..., Up], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    running = up("--json", "--ephemeral", "--brokers", "2")
    other, victim = running.ready()["brokers"]
    os.kill(victim["pid"], signal.SIGKILL)
    with restarted(running, victim, tmp_path) as again:
        running.process.kill()
        wait_until_gone([other["pid"]])
        assert again.poll() is None
        data = Path(victim["data_dir"])
        assert (data / "meta.properties").exists()
        again.kill()
    deadline = time.monotonic() + TIMEOUT_S
    while data.parent.exists():
        assert time.monotonic() < deadline


def test_up_exits_with_1_when_no_broker_runs(up: Callable[..., Up]) -> None:
    running = up("--json", "--ephemeral", "--brokers", "1")
    (only,) = running.ready()["brokers"]
    os.kill(only["pid"], signal.SIGKILL)
    assert running.end() == 1
    assert "was ended by SIGKILL; no broker is left\n" in running.shown


def test_brokers_end_when_up_is_killed(up: Callable[..., Up], tmp_path: Path) -> None:
    running = up("--json", "--data-dir", str(tmp_path / "data"))
    brokers = running.ready()["brokers"]
    running.process.kill()
    wait_until_gone([broker["pid"] for broker in brokers])
    assert {(Path(broker["data_dir"]) / ".kafka_cleanshutdown").exists() for broker in brokers} == {True}


def test_sighup_stops_all_brokers_cleanly(up: Callable[..., Up], tmp_path: Path) -> None:
    running = up("--json", "--data-dir", str(tmp_path / "data"))
    brokers = running.ready()["brokers"]
    assert running.stop(signal.SIGHUP) == 0
    assert {(Path(broker["data_dir"]) / ".kafka_cleanshutdown").exists() for broker in brokers} == {True}


def test_ephemeral_data_is_removed_when_up_is_killed(
    up: Callable[..., Up], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    running = up("--json", "--ephemeral", "--brokers", "2")
    brokers = running.ready()["brokers"]
    assert len(list(folder.iterdir())) == 1
    running.process.kill()
    wait_until_gone([broker["pid"] for broker in brokers])
    deadline = time.monotonic() + TIMEOUT_S
    while list(folder.iterdir()):
        assert time.monotonic() < deadline


def test_exit_with_parent_ends_up_when_its_parent_ends(up: Callable[..., Up]) -> None:
    running = up("--json", "--ephemeral", "--brokers", "1", "--exit-with-parent")
    running.ready()
    present(running.process.stdin).close()
    running.process.stdin = None
    assert running.end() == 0


def own_host() -> str:
    """Return an address whose ports only this process uses, so that those of stopped brokers stay free; Linux only."""
    pid = os.getpid()
    return f"127.{1 + pid // 65536}.{pid // 256 % 256}.{pid % 256}" if sys.platform == "linux" else "127.0.0.1"


@pytest.mark.parametrize("ports", ["others", "the same"])
def test_second_start_keeps_records_and_does_not_wait_for_sessions(
    up: Callable[..., Up], call: Command, tmp_path: Path, ports: str
) -> None:
    options = ["--json", "--data-dir", str(tmp_path / "data"), PATIENT, "--listen", f"{own_host()}:0"]
    running = up(*options, "--topic", "t")
    reported = running.ready()
    assert call("produce", "t", "-b", reported["bootstrap"], stdin=b"a\nb\n").status == 0
    assert running.stop() == 0
    if ports == "the same":
        options += ["--listen", reported["bootstrap"].partition(",")[0]]
    again = up(*options, "--topic", "t:2")
    bootstrap = again.ready()["bootstrap"]
    assert call("consume", "t", "-e", "-b", bootstrap).out == "a\nb\n"
    assert call("produce", "t", "-b", bootstrap, stdin=b"c\n").status == 0
    assert again.stop(signal.SIGINT) == 0
    assert "unclean" not in again.shown
    assert "barnabas up: t exists with 1 partition, not 2; `barnabas topic alter t --partitions 2`" in again.shown


@pytest.mark.parametrize(("brokers", "controllers"), [(1, [1]), (2, [1]), (4, [1, 2, 3])])
def test_the_first_brokers_are_controllers(
    up: Callable[..., Up], call: Command, brokers: int, controllers: list[int]
) -> None:
    running = up("--json", "--ephemeral", "--brokers", str(brokers))
    reported = running.ready()
    assert len(reported["brokers"]) == brokers
    nodes = json.loads(call("cluster", "--json", "-b", reported["bootstrap"]).out)["controllers"]
    assert {node["node"] for node in nodes} == set(range(1, brokers + 1))
    assert call("health", "-b", reported["bootstrap"]).lines[0] == "healthy: yes"
    assert sorted(node["node"] for node in nodes if node["status"] != "observer") == controllers
    assert running.stop() == 0
    assert not Path(reported["brokers"][0]["data_dir"]).exists()


def test_ready_line_on_a_descriptor_equals_the_printed_one(up: Callable[..., Up]) -> None:
    reading, writing = os.pipe()
    running = up("--ephemeral", "--brokers", "1", "--ready-fd", str(writing), pass_fds=(writing,))
    os.close(writing)
    with open(reading, encoding="utf-8") as reported:
        line = reported.read()  # up to EOF: the descriptor is closed
    assert re.fullmatch(r"ready: 127\.0\.0\.1:\d+\n", line)
    assert present(running.process.stdout).readline() == line
    assert f"barnabas up: in other terminals: export BARNABAS_BROKERS={line.split()[1]}\n" in running.shown
    assert re.search(r"barnabas up: process ids: broker 1: \d+", running.shown)
    assert running.stop() == 0


def test_each_log_line_has_the_broker_number(up: Callable[..., Up]) -> None:
    running = up("--json", "--ephemeral", "--brokers", "2")
    running.ready()
    assert running.stop() == 0
    lines = running.shown.splitlines()
    assert {line[:4] for line in lines} == {"[1] ", "[2] "}
    assert [f"node {number} of cluster" in running.shown for number in (1, 2)] == [True, True]


def test_second_signal_kills_brokers_that_do_not_stop(up: Callable[..., Up]) -> None:
    running = up("--json", "--ephemeral", "--brokers", "1")
    (only,) = running.ready()["brokers"]
    os.kill(only["pid"], signal.SIGSTOP)
    running.process.send_signal(signal.SIGTERM)
    assert running.stop(signal.SIGINT) == 1


@pytest.mark.parametrize("brokers", ["1", "3"])
def test_a_setting_that_brokers_refuse_is_explained_once(up: Callable[..., Up], tmp_path: Path, brokers: str) -> None:
    running = up("--brokers", brokers, "--data-dir", str(tmp_path / "data"), "-Dlog.retention.hours=abc")
    assert running.end() == 2
    why = "Invalid value abc for configuration log.retention.hours: Not a number of type INT"
    assert running.shown == f"barnabas up: -D log.retention.hours: {why}\n"


def test_setting_refused_by_one_broker_ends_the_start_with_its_number(up: Callable[..., Up], tmp_path: Path) -> None:
    running = up("--brokers", "2", "--data-dir", str(tmp_path / "data"))
    present(running.process.stdout).readline()
    assert running.stop() == 0
    identity = tmp_path / "data" / "2" / "meta.properties"
    identity.write_text(re.sub(r"node\.id=2", "node.id=7", identity.read_text()))
    running = up("--brokers", "2", "--data-dir", str(tmp_path / "data"))
    assert running.end() == 2
    assert re.search(
        r"^\[2\] barnabas: .*has node\.id=7, but the configuration has node\.id=2", running.shown, re.MULTILINE
    )
    assert re.search(r"barnabas up: broker 2 \(process \d+\) ended with status 2\n", running.shown)


def test_invalid_topic_ends_the_start(up: Callable[..., Up]) -> None:
    running = up("--ephemeral", "--brokers", "1", "--topic", "t:100000000")
    assert running.end() == 2
    assert "barnabas up: --topic t: " in running.shown


def test_a_port_in_use_is_named(call: Command, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        shown = call("up", "--data-dir", str(tmp_path / "data"), "--listen", address)
    assert (shown.status, shown.out) == (2, "")
    assert shown.err.startswith(f"barnabas up: cannot listen on {address}: address already in use; choose another")
    assert not (tmp_path / "data").exists()


def test_a_directory_of_another_number_of_brokers_is_refused(
    up: Callable[..., Up], call: Command, tmp_path: Path
) -> None:
    running = up("--json", "--brokers", "1", "--data-dir", str(tmp_path / "data"))
    running.ready()
    running.stop()
    shown = call("up", "--brokers", "3", "--data-dir", str(tmp_path / "data"))
    assert shown.status == 2
    assert f"{tmp_path}/data holds a cluster of 1 broker: use --brokers 1, or choose another" in shown.err


def test_running_cluster_is_not_changed(up: Callable[..., Up], call: Command, tmp_path: Path) -> None:
    running = up("--json", "--brokers", "1", "--data-dir", str(tmp_path / "data"))
    running.ready()
    before = {file.name: file.read_bytes() for file in (tmp_path / "data").iterdir() if file.is_file()}
    shown = call("up", "--brokers", "1", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    assert shown.status == 2
    assert f"{tmp_path}/data is in use by another `barnabas up`: " in shown.err
    assert {file.name: file.read_bytes() for file in (tmp_path / "data").iterdir() if file.is_file()} == before
    assert running.stop() == 0


def test_directory_with_foreign_files_is_refused(call: Command, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    shown = call("up", "--data-dir", str(tmp_path))
    assert shown.status == 2
    assert f"{tmp_path} is not empty and has no cluster.properties" in shown.err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--brokers", "0"], "'0' is not a number of at least 1"),
        (["--brokers", "-1"], "'-1' is not a number of at least 1"),
        (["--brokers", "65"], "65 brokers are too many: 64 at most"),
        (["--ready-fd", "999"], "'999' is not an open descriptor"),
        (["--ready-fd", "x"], "'x' is not an open descriptor"),
        (["--listen", "127.0.0.1"], "'127.0.0.1': write it as HOST:PORT"),
        (["--listen", "0.0.0.0:9092"], "'0.0.0.0:9092': name an address that clients connect to"),
        (["--listen", "127.0.0.1:65535"], "--listen 127.0.0.1:65535: 3 ports from there on would end above 65535"),
        (["--listen", "192.0.2.1:9092"], "cannot listen on 192.0.2.1:9092: cannot assign requested address"),
        (["--listen", "no-such-host.invalid:1"], "cannot listen on no-such-host.invalid:1: "),
        (["-D", "num.partitions"], "'num.partitions': write it as KEY=VALUE"),
        (["-D", "node.id=7"], "node.id differs between brokers and cannot be set for all"),
        (["--topic", "t:0"], "'0' is not a number of at least 1"),
        (["--topic", "a b"], "'a b' is not a valid topic name: 1 to 249 characters of a-z, A-Z, 0-9, ., _ and -"),
        (["--topic", ".."], "'..' is not a valid topic name"),
        (["--ephemeral", "--data-dir", "x"], "--data-dir: not allowed with argument --ephemeral"),
        (["--data-dir", "/dev/null/x"], "/dev/null/x"),
    ],
)
def test_wrong_call_is_reported_with_the_correct_usage(
    call: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = call("up", *options)
    assert (shown.status, shown.out) == (2, "")
    assert problem in shown.err


def test_read_only_descriptor_is_refused(call: Command) -> None:
    with open(os.devnull, encoding="utf-8") as file:
        shown = call("up", "--ready-fd", str(file.fileno()))
    assert shown.status == 2
    assert f"'{file.fileno()!s}' cannot be written to" in shown.err if not file.closed else shown.err


def test_the_server_stays_out_of_this_process(tmp_path: Path) -> None:
    log = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "barnabas", "up", "--data-dir", str(tmp_path), "--brokers", "x"],
        capture_output=True,
        text=True,
        check=False,
    ).stderr
    imported = {line.rpartition("|")[2].strip() for line in log.splitlines() if line.startswith("import time:")}
    assert "barnabas.commands._brokers" in imported
    assert not {name.partition(".")[0] for name in imported} & {"broker", "storage", "protocol", "kafka", "asyncio"}


def test_secure_cluster_is_started_again_with_security_only(call: Command, tmp_path: Path) -> None:
    (tmp_path / "data" / "security").mkdir(parents=True)
    (tmp_path / "data" / "security" / "ca.pem").write_text("certificate")
    (tmp_path / "data" / "cluster.properties").write_text("cluster.id=x\nbrokers=3\n")
    status, out, err = call("up", "--data-dir", str(tmp_path / "data"))
    assert (status, out) == (2, "")
    assert "holds a secure cluster: start it with --secure" in err
