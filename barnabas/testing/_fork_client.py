"""The client of the fork server (`broker/startup/fork_server.py`, which has the protocol).

The server starts with the first broker and ends with this process: at the end of the socket, or when the process is
gone. A fork of this process closes its copy of the socket.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from socket import send_fds, socket, socketpair
from typing import Any

from barnabas.testing._processes import SERVER_PROGRAM, BrokerProcess, Events, check_owner, environment
from barnabas.testing.errors import ClusterError

_START_S = 30.0
_END_S = 10.0
_READ_BYTES = 64 * 1024
_NAME_BYTES = 8
"""Of the random part of a directory's name: enough that no other program has the same."""


class ForkClient:
    """A `Launcher` that has its brokers forked."""

    def __init__(self) -> None:
        """Start the fork server; ClusterError if that fails."""
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._rest = b""
        self._processes: dict[int, BrokerProcess] = {}
        self._ids: dict[int, int] = {}
        self._last_id = 0
        self._events = Events(self._read)
        self._errors = open(os.memfd_create("fork-server"), "w+b")  # noqa: SIM115 - closed with the object
        self._socket, theirs = socketpair()
        with theirs:
            try:
                self._server = subprocess.Popen(  # noqa: S603 - our own program, no shell
                    [sys.executable, SERVER_PROGRAM, "fork-server"],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=self._errors,
                    cwd="/",
                    env=environment(),
                    start_new_session=True,
                )
            except OSError as error:
                self._socket.close()
                raise ClusterError(f"cannot start {sys.executable}: {error.strerror}") from error

    @property
    def usable(self) -> bool:
        """Return whether brokers can be started: in the process that made this object, while the server runs."""
        return self._owner == os.getpid() and self._server.poll() is None

    def start(self, arguments: Sequence[str], sockets: Mapping[str, socket], log: int) -> BrokerProcess:
        """Fork a broker (`Launcher.start`)."""
        with self._lock:
            self._last_id += 1
            broker_id = self._last_id
        request = {"fork": broker_id, "arguments": list(arguments), "sockets": list(sockets)}
        self._send(request, [log, *(one.fileno() for one in sockets.values())])
        if not self._events.wait(lambda: broker_id in self._processes, _START_S):
            raise ClusterError(f"the fork server, process {self._server.pid}, has not answered for {_START_S:g} s")
        return self._processes[broker_id]

    def signal(self, process: BrokerProcess, number: int) -> None:
        """Send a signal (`Launcher.signal`)."""
        self._send({"signal": self._ids[process.pid], "number": int(number)})

    def end_input(self, process: BrokerProcess) -> None:
        """Stop a broker in order (`Launcher.end_input`)."""
        self._send({"end_input": self._ids[process.pid]})

    def wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition of processes (`Launcher.wait`)."""
        check_owner(self._owner)
        return self._events.wait(until, timeout_s)

    def refresh(self) -> None:
        """Apply what has come (`Launcher.refresh`)."""
        if self._owner == os.getpid() and self._socket.fileno() >= 0:
            with suppress(ClusterError):  # the fork server has ended, and with it the brokers
                self._events.refresh()

    def temporary_directory(self) -> str:
        """Return the path of a new directory, deleted when this process ends."""
        from tempfile import gettempdir  # while the server starts: its import takes milliseconds

        try:
            path = os.path.join(gettempdir(), f"barnabas-{os.urandom(_NAME_BYTES).hex()}")
            self._send({"delete": path})  # before it exists, so that an interrupt leaves nothing
            os.mkdir(path, 0o700)
        except OSError as error:
            raise ClusterError(f"cannot create a temporary directory: {error.strerror}; set TMPDIR") from error
        return path

    def delete(self, path: str) -> None:
        """Delete a directory of `temporary_directory`."""
        from shutil import rmtree

        rmtree(path, ignore_errors=True)

    def _send(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        check_owner(self._owner)
        data = json.dumps(request).encode() + b"\n"
        try:
            with self._lock:
                sent = send_fds(self._socket, [data], list(descriptors)) if descriptors else 0
                self._socket.sendall(data[sent:])
        except OSError as error:
            raise self._ended() from error

    def _read(self, timeout_s: float) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            return
        try:
            data = self._socket.recv(_READ_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            raise self._ended()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._apply(json.loads(line))

    def _apply(self, event: Mapping[str, Any]) -> None:
        match event:
            case {"forked": broker_id, "pid": pid}:
                self._ids[pid] = broker_id
                self._processes[broker_id] = BrokerProcess(pid)
            case {"printed": broker_id, "line": line}:
                self._processes[broker_id].lines.append(line)
            case {"paused": broker_id}:
                self._processes[broker_id].paused = True
            case {"exited": broker_id, "status": status}:
                self._processes[broker_id].status = status

    def _ended(self) -> ClusterError:
        """Mark all brokers as killed, since they end with the server; return an error that says why it has ended."""
        for process in self._processes.values():
            if process.status is None:
                process.status = -signal.SIGKILL
        status = self._server.wait(_END_S)
        self._errors.seek(0)
        printed = self._errors.read().decode(errors="replace").strip()
        why = f": {printed}" if printed else f" with status {status}"
        return ClusterError(f"the fork server, process {self._server.pid}, has ended{why}")

    def close(self) -> None:
        """End the server, and with it all brokers."""
        self._socket.close()
        try:
            self._server.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._server.kill()  # the kernel ends the brokers
            self._server.wait()
        self._errors.close()

    def leave_to_parent(self) -> None:
        """Close, in a fork of the process, what belongs to its parent."""
        self._socket.close()
        self._errors.close()
        self._server.returncode = 0  # not a child of this process: nothing to wait for
