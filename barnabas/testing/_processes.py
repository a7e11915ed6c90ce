"""Broker processes: what is known of one, and what a launcher does.

There are two launchers (`_launchers.py` chooses one): `_fork_client.py` and `_spawner.py`. Both keep these promises:

- A broker ends with this process, however that ends, and whatever forks of it hold copies of its descriptors.
- The terminal's signals do not reach the brokers: this process decides.
- In a fork of this process, brokers are out of reach: they belong to the process that started them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from socket import socket
from typing import Protocol

from barnabas.testing.errors import ClusterError

SERVER_PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_launcher.py")
_TOKEN_BYTES = 18


def environment() -> dict[str, str]:
    """Return the environment of brokers. They get a token for the control API that they keep over restarts."""
    # Variables of a container are not for test brokers.
    return os.environ | {"BARNABAS_CONTAINER": "", "BARNABAS_CONTROL_TOKEN": os.urandom(_TOKEN_BYTES).hex()}


class BrokerProcess:
    """One broker's process, as its launcher has last seen it."""

    def __init__(self, pid: int) -> None:
        """Describe a process that has just started."""
        self.pid = pid
        self.lines: list[str] = []
        """The complete lines of its standard output so far: `control: URL`, `ready: HOST:PORT`."""
        self.paused = False
        self.status: int | None = None
        """The exit status, or minus the number of the signal; None while it runs."""

    def value(self, name: str) -> str | None:
        """Return the rest of the line that begins with `name: `; None before it is printed."""
        prefix = f"{name}: "
        return next((line.removeprefix(prefix) for line in self.lines if line.startswith(prefix)), None)


class Launcher(Protocol):
    """Starts broker processes, and reports what becomes of them."""

    def start(self, arguments: Sequence[str], sockets: Mapping[str, socket], log: int) -> BrokerProcess:
        """Start a broker with the arguments of `barnabas serve`; `log` becomes its standard error.

        `sockets` are bound sockets by the name of their listener; the caller closes them afterwards.
        """

    def signal(self, process: BrokerProcess, number: int) -> None:
        """Send a signal; a process that has ended gets none."""

    def end_input(self, process: BrokerProcess) -> None:
        """Close the standard input of a process, which stops a broker in order."""

    def wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `until`, a condition of processes, holds; return whether it does in time."""

    def refresh(self) -> None:
        """Apply what has happened to processes until now, without waiting; nothing in a fork of this process."""

    def temporary_directory(self) -> str:
        """Return the path of a new directory, deleted when this process ends."""

    def delete(self, path: str) -> None:
        """Delete a directory of `temporary_directory`, in which no broker runs."""

    @property
    def usable(self) -> bool:
        """Return whether brokers can be started."""

    def close(self) -> None:
        """Kill all brokers, and delete the temporary directories."""

    def leave_to_parent(self) -> None:
        """Close, in a fork of the process, what belongs to its parent."""


def check_owner(owner: int) -> None:
    """Raise ClusterError in any process but `owner`, which has started the brokers."""
    if owner != os.getpid():
        raise ClusterError(
            f"the cluster belongs to process {owner}, of which this process is a fork: it can connect to the brokers, "
            "but neither start nor stop them"
        )


class Events:
    """Waits of several threads for events that one of them reads for all."""

    def __init__(self, read: Callable[[float], None]) -> None:
        """`read` waits for events for at most a number of seconds, and applies them."""
        self._read = read
        self._condition = threading.Condition()
        self._reading = False

    def wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `until` holds, in the meantime reading events; return whether it does in time."""
        deadline = time.monotonic() + timeout_s
        while not until():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            with self._condition:
                if self._reading:
                    self._condition.wait(left_s)
                    continue
                self._reading = True
            try:
                self._read(left_s)
            finally:
                self._end_reading()
        return True

    def refresh(self) -> None:
        """Apply the events that have come, unless another thread reads them."""
        with self._condition:
            if self._reading:
                return
            self._reading = True
        try:
            self._read(0)
        finally:
            self._end_reading()

    def _end_reading(self) -> None:
        with self._condition:
            self._reading = False
            self._condition.notify_all()
