"""The fork server: its protocol, as `barnabas.testing` uses it. The kit's own tests cover the ends of processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import _launcher

LAUNCHER = Path(_launcher.__file__)


class Server:
    """A fork server and the other end of its socket."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, str(LAUNCHER), "fork-server"], stdin=theirs.fileno(), start_new_session=True
            )
        self._lines = self.socket.makefile("r")

    def fork(self, number: int, *arguments: str, **sockets: socket.socket) -> int:
        """Fork a broker and return its process id."""
        with open(self.log, "ab") as log:
            request = {"fork": number, "arguments": arguments, "sockets": list(sockets)}
            descriptors = [log.fileno(), *(one.fileno() for one in sockets.values())]
            socket.send_fds(self.socket, [json.dumps(request).encode() + b"\n"], descriptors)
        event = self.event()
        assert event.keys() == {"forked", "pid"}
        assert event["forked"] == number
        return int(event["pid"])

    def send(self, **request: object) -> None:
        self.socket.sendall(json.dumps(request).encode() + b"\n")

    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._lines.readline())
        return found

    def close(self) -> int:
        self._lines.close()
        self.socket.close()
        return self.process.wait(30)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "log")
    yield made
    assert made.close() == 0


def options(tmp_path: Path, number: int = 1) -> tuple[str, ...]:
    return ("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / f"data{number}"), "--exit-with-parent")


def test_a_forked_broker_serves_on_the_given_socket_and_stops_at_the_end_of_its_input(
    server: Server, tmp_path: Path
) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*bound.getsockname())
        pid = server.fork(1, *options(tmp_path), PLAINTEXT=bound)
    assert server.event() == {"printed": 1, "line": f"ready: {address}"}
    assert os.getpgid(pid) == pid
    socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))).close()
    server.send(end_input=1)
    assert server.event() == {"exited": 1, "status": 0}
    assert "Stopped" in server.log.read_text()


def test_later_brokers_find_the_modules_of_the_first_loaded(server: Server, tmp_path: Path) -> None:
    for number in range(1, 4):
        server.fork(number, *options(tmp_path, number))
        assert server.event()["printed"] == number
    for number in range(1, 4):
        server.send(signal=number, number=signal.SIGKILL)
        assert server.event() == {"exited": number, "status": -signal.SIGKILL}


def test_a_broker_that_refuses_to_start_exits_with_its_status_and_message(server: Server, tmp_path: Path) -> None:
    server.fork(1, *options(tmp_path), "-Dnode.id=x")
    assert server.event() == {"exited": 1, "status": 2}
    server.fork(2, "--no-such-option")
    assert server.event() == {"exited": 2, "status": 2}
    log = server.log.read_text()
    assert "barnabas: -D node.id" in log
    assert "there is no option --no-such-option" in log
    assert "Traceback" not in log


def test_a_pause_is_reported_when_it_has_taken_effect(server: Server, tmp_path: Path) -> None:
    pid = server.fork(1, *options(tmp_path))
    server.event()
    server.send(signal=1, number=signal.SIGSTOP)
    assert server.event() == {"paused": 1}
    assert Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] == "T"
    server.send(signal=1, number=signal.SIGCONT)
    server.send(signal=1, number=signal.SIGTERM)
    assert server.event() == {"exited": 1, "status": 0}


def test_requests_about_brokers_that_have_ended_are_ignored(server: Server, tmp_path: Path) -> None:
    server.send(signal=7, number=signal.SIGKILL)
    server.send(end_input=7)
    server.fork(1, *options(tmp_path))
    assert server.event()["printed"] == 1


def test_the_end_of_the_client_kills_the_brokers_and_deletes_the_directories(tmp_path: Path) -> None:
    server = Server(tmp_path / "log")
    (tmp_path / "given").mkdir()
    server.send(delete=str(tmp_path / "given"))
    pid = server.fork(1, *options(tmp_path))
    server.event()
    assert server.close() == 0
    assert not Path(f"/proc/{pid}").exists()
    assert not (tmp_path / "given").exists()


def test_another_standard_input_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, str(LAUNCHER), "fork-server"], stdin=subprocess.PIPE, capture_output=True, check=False
    )
    assert done.returncode != 0
