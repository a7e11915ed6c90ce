"""Broker processes that start by themselves, where there is no fork server.

Each is a child of this process, and stops at the end of its standard input, when this process has ended: forks of it
close their copies of the pipe, and programs that it starts inherit none. A paused broker ends too: the system sends
SIGHUP to an orphaned process group with stopped members, and resumes it.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from socket import socket

from barnabas._ephemeral import make_directory
from barnabas.testing._processes import SERVER_PROGRAM, BrokerProcess, Events, check_owner, environment
from barnabas.testing.errors import ClusterError

_READ_BYTES = 64 * 1024


class Spawner:
    """A `Launcher` that starts a new interpreter for each broker."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._owner = os.getpid()
        self._environment = environment()
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._rest: dict[int, bytes] = {}
        self._directories: dict[str, tuple[int, subprocess.Popen[bytes]]] = {}
        self._selector = selectors.DefaultSelector()
        self._events = Events(self._read)

    def start(self, arguments: Sequence[str], sockets: Mapping[str, socket], log: int) -> BrokerProcess:
        """Start a broker (`Launcher.start`)."""
        check_owner(self._owner)
        handed = [f"--socket={name}={one.fileno()}" for name, one in sockets.items()]
        try:
            child = subprocess.Popen(  # noqa: S603 - our own program, no shell
                [sys.executable, SERVER_PROGRAM, "serve", *arguments, *handed],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                pass_fds=[one.fileno() for one in sockets.values()],
                process_group=0,
                env=self._environment,
            )
        except OSError as error:
            raise ClusterError(f"cannot start {sys.executable}: {error.strerror}") from error
        self._children[child.pid] = child
        process = BrokerProcess(child.pid)
        if child.stdout is not None:
            self._selector.register(child.stdout, selectors.EVENT_READ, partial(self._printed, process, child))
        return process

    def signal(self, process: BrokerProcess, number: int) -> None:
        """Send a signal (`Launcher.signal`)."""
        check_owner(self._owner)
        child = self._children.get(process.pid)
        if child is not None:
            child.send_signal(number)
            process.paused = process.paused or number == signal.SIGSTOP

    def end_input(self, process: BrokerProcess) -> None:
        """Stop a broker in order (`Launcher.end_input`)."""
        check_owner(self._owner)
        child = self._children.get(process.pid)
        if child is not None and child.stdin is not None:
            child.stdin.close()

    def wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition of processes (`Launcher.wait`)."""
        check_owner(self._owner)
        return self._events.wait(until, timeout_s)

    def refresh(self) -> None:
        """Apply what has come (`Launcher.refresh`)."""
        if self._owner == os.getpid():
            self._events.refresh()

    def temporary_directory(self) -> str:
        """Return the path of a new directory, deleted when this process and its brokers have ended."""
        path, keeping, deleting = make_directory()
        self._directories[path] = keeping, deleting
        return path

    def delete(self, path: str) -> None:
        """Delete a directory of `temporary_directory`."""
        shutil.rmtree(path, ignore_errors=True)
        keeping, deleting = self._directories.pop(path)
        os.close(keeping)
        deleting.wait()

    @property
    def usable(self) -> bool:
        """Return whether this is the process that made the object."""
        return self._owner == os.getpid()

    def _read(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            key.data()

    def _printed(self, process: BrokerProcess, child: subprocess.Popen[bytes]) -> None:
        if child.stdout is None:
            return
        data = os.read(child.stdout.fileno(), _READ_BYTES)
        *lines, self._rest[child.pid] = (self._rest.pop(child.pid, b"") + data).split(b"\n")
        process.lines += [line.decode() for line in lines]
        if not data:
            self._selector.unregister(child.stdout)
            child.stdout.close()
            if child.stdin is not None:
                child.stdin.close()
            process.status = child.wait()
            del self._children[child.pid], self._rest[child.pid]

    def close(self) -> None:
        """Kill the brokers, and delete their directories."""
        for child in self._children.values():
            child.kill()
        for child in self._children.values():
            child.communicate()
        for path in list(self._directories):
            self.delete(path)

    def leave_to_parent(self) -> None:
        """Close, in a fork of the process, what belongs to its parent."""
        for child in self._children.values():
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    stream.close()
            child.returncode = 0  # not a child of this process: nothing to wait for
        for keeping, deleting in self._directories.values():
            os.close(keeping)
            deleting.returncode = 0
