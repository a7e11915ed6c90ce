"""One broker of a test cluster: its process, its ports, and the address of its control API."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from barnabas._cluster_settings import CLIENTS, CONTROLLERS, Address, NodeAddresses
from barnabas.testing._control import ControlClient, Unreachable
from barnabas.testing._ports import KeptPort
from barnabas.testing._processes import BrokerProcess, Launcher
from barnabas.testing.disturbance import BrokerDisk, BrokerNetwork
from barnabas.testing.errors import ClusterError

START_S = 60.0
STOP_S = 30.0
_ENDING_S = 5.0
"""The time in which a broker that does not answer any more ends, if it is about to."""
CONTROL = "CONTROL"
"""The listener of the control API."""
_SHOWN_LINES = 15
_REFUSAL = "barnabas: "
"""The prefix of the line with the reason why a broker exits."""


class Broker:
    """A broker of a cluster. It keeps its ports and its data while it is down."""

    def __init__(
        self,
        launcher: Launcher,
        node_id: int,
        host: str,
        directory: Path,
        *,
        is_controller: bool,
        port: int = 0,
        clients_listener: str = CLIENTS,
    ) -> None:
        """Reserve the ports, of which `port` is for clients; ClusterError if that fails.

        `directory` gets the data and the log. `clients_listener` is the name of the listener for clients.
        """
        self.node_id = node_id
        """The broker's id in the cluster, from 1."""
        self.data_dir = directory / str(node_id)
        """The directory of its data."""
        self.log_file = directory / f"{node_id}.log"
        """The file to which each start appends its log."""
        self.on_ready: list[Callable[[Broker], None]] = []
        """Called with the broker after each of its starts."""
        self.on_resumed: list[Callable[[Broker], None]] = []
        """Called with the broker when it goes on after a pause."""
        self.peers: Sequence[Broker] = [self]
        """All brokers of its cluster."""
        self.disk = BrokerDisk(self._request, self._heal)
        """Its disk, which can be slow, full or broken."""
        self.network = BrokerNetwork(self._request, self._heal)
        """Its network, from which it can be cut off."""
        self._is_controller = is_controller
        self._launcher = launcher
        self._arguments: list[str] = []
        self._process: BrokerProcess | None = None
        self._control: ControlClient | None = None
        self._clients = clients_listener
        listeners = [clients_listener, *([CONTROLLERS] if is_controller else []), CONTROL]
        with ExitStack() as reserved:
            self._ports = {
                name: reserved.enter_context(closing(KeptPort(host, port if name == clients_listener else 0)))
                for name in listeners
            }
            self._reserved = reserved.pop_all()

    def __repr__(self) -> str:
        return f"<Broker {self.node_id} at {self.bootstrap}>"

    @property
    def addresses(self) -> NodeAddresses:
        """The addresses of the listeners."""
        found = {name: Address(port.host, port.port) for name, port in self._ports.items()}
        return NodeAddresses(self.node_id, found[self._clients], found.get(CONTROLLERS))

    @property
    def bootstrap(self) -> str:
        """The broker's HOST:PORT for clients."""
        return str(self._ports[self._clients])

    @property
    def pid(self) -> int:
        """The process id; ClusterError unless the broker runs."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether the broker's process runs; a paused one does."""
        if self._process is not None and self._process.status is None:
            self._launcher.refresh()  # it may have ended by itself
        return self._process is not None and self._process.status is None

    @property
    def _is_starting(self) -> bool:
        return self._process is not None and self.is_running and self._process.value("ready") is None

    @property
    def is_paused(self) -> bool:
        """Whether the process is paused."""
        return self._process is not None and self.is_running and self._process.paused

    @property
    def control_url(self) -> str:
        """The URL of its control API, with the token as the password; ClusterError unless the broker serves it."""
        url = self._running().value("control")
        if url is None:
            raise Unreachable(f"broker {self.node_id} is starting: its control API does not serve yet")
        return url

    @property
    def control(self) -> ControlClient:
        """The client of its control API; ClusterError unless the broker serves it."""
        self._running()
        if self._control is None:
            self._control = ControlClient(self.control_url)
        return self._control

    @property
    def log(self) -> str:
        """The text of its log."""
        return self.log_since(0)

    @property
    def log_bytes(self) -> int:
        """The size of its log in bytes."""
        return self.log_file.stat().st_size if self.log_file.exists() else 0

    def log_since(self, size: int) -> str:
        """Return the text of the log after its first `size` bytes."""
        if not self.log_file.exists():
            return ""
        with open(self.log_file, "rb") as file:
            file.seek(size)
            return file.read().decode(errors="replace")

    def configure(self, arguments: Sequence[str]) -> None:
        """Set the arguments of `barnabas serve` for all starts."""
        self._arguments = [*arguments, f"--control={self._ports[CONTROL]}", "--exit-with-parent"]

    def begin_start(self, arguments: Sequence[str] = ()) -> None:
        """Start the process, with further arguments, without waiting for it; ClusterError if it runs."""
        if self.is_running:
            raise ClusterError(f"broker {self.node_id} runs already, as process {self.pid}")
        self._forget_connections()
        with ExitStack() as stack:
            sockets = {name: stack.enter_context(port.bound()) for name, port in self._ports.items()}
            try:
                log = os.open(self.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise ClusterError(f"{self.log_file}: {(error.strerror or str(error)).lower()}") from error
            stack.callback(os.close, log)
            self._process = self._launcher.start([*self._arguments, *arguments], sockets, log)
        self.network.started()

    def until_ready(self, timeout_s: float = START_S) -> None:
        """Wait until the broker serves clients; ClusterError with the cause if it ends, or is not ready in time."""
        process = self._running_or_ended()
        self._launcher.wait(lambda: process.status is not None or process.value("ready") is not None, timeout_s)
        if process.status is not None:
            raise ClusterError(f"broker {self.node_id} {_how(process.status)} at its start: {self._cause()}")
        if process.value("ready") is None:
            raise ClusterError(f"broker {self.node_id} is not ready after {timeout_s:g} s. Its log: {self._cause()}")
        for call in list(self.on_ready):
            call(self)

    def start(self) -> None:
        """Start the broker again after `stop` or `kill`, on the same ports, and wait until it serves clients.

        No broker serves clients before a majority of the controllers runs. The start that completes the majority waits
        for all brokers that were started before; those starts do not wait.
        """
        self.begin_start()
        controllers = [broker for broker in self.peers if broker._is_controller]
        if 2 * sum(broker.is_running for broker in controllers) > len(controllers):
            for broker in self.peers:
                if broker._is_starting:
                    broker.until_ready()

    def stop(self) -> None:
        """Stop the broker in order, as SIGTERM does; it hands its leaderships over first."""
        process = self._running()
        self._continue(process)
        self._end(process, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the broker's process with SIGKILL."""
        self._end(self._running(), signal.SIGKILL)

    def begin_end(self, *, kill: bool) -> None:
        """Kill the process if it runs, or stop it together with the other brokers, without handing over."""
        if self._process is None or self._process.status is not None:
            return
        if kill:
            self._launcher.signal(self._process, signal.SIGKILL)
        else:
            self._continue(self._process)
            self._launcher.end_input(self._process)

    def until_ended(self, timeout_s: float = STOP_S) -> bool:
        """Wait for the end of the process; return whether it comes in time."""
        process = self._process
        ended = process is None or self._launcher.wait(lambda: process.status is not None, timeout_s)
        if ended:
            self._forget_connections()
        return ended

    def has_ended(self, timeout_s: float = _ENDING_S) -> bool:
        """Return whether the process, which does not answer, ends in time; False in a fork, where that is not seen."""
        with suppress(ClusterError):  # of a fork; or the fork server has ended, and with it the broker
            self.until_ended(timeout_s)
        return self._process is None or self._process.status is not None

    def restart(self) -> None:
        """Stop the broker in order if it runs, and start it again on the same ports."""
        if self.is_running:
            self.stop()
        self.start()

    def pause(self) -> None:
        """Pause the process with SIGSTOP: connections stay open, nothing is answered."""
        process = self._running()
        self._launcher.signal(process, signal.SIGSTOP)
        self._launcher.wait(lambda: process.paused or process.status is not None, STOP_S)

    def resume(self) -> None:
        """Resume the process after `pause`."""
        if self._continue(self._running()):
            for call in list(self.on_resumed):
                call(self)

    def _continue(self, process: BrokerProcess) -> bool:
        """Send SIGCONT if the process is paused; return whether it was."""
        was_paused, process.paused = process.paused, False
        if was_paused:
            self._launcher.signal(process, signal.SIGCONT)
        return was_paused

    def close(self) -> None:
        """Give the ports up; the process has ended."""
        self._reserved.close()

    def describe(self) -> str:
        """Return the state of the process in words."""
        if self._process is None:
            return f"broker {self.node_id} was not started"
        if not self.is_running and self._process.status is not None:
            return f"broker {self.node_id} {_how(self._process.status)}"
        return f"broker {self.node_id}, process {self._process.pid}, {'is paused' if self._process.paused else 'runs'}"

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        if self.is_paused:
            raise ClusterError(f"{self.describe()}; resume it first")
        return self.control.call(method, path, body)

    def _heal(self, path: str) -> None:
        if self.is_running:
            with suppress(Unreachable):  # it is ending
                self._request("DELETE", path, None)

    def _end(self, process: BrokerProcess, number: int) -> None:
        began = time.monotonic()
        self._launcher.signal(process, number)
        if not self.until_ended():
            self._launcher.signal(process, signal.SIGKILL)
            self.until_ended()
            waited = time.monotonic() - began
            raise ClusterError(f"broker {self.node_id} did not stop within {waited:.0f} s, and was killed")

    def _forget_connections(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None

    def _running_or_ended(self) -> BrokerProcess:
        if self._process is None:
            raise ClusterError(f"broker {self.node_id} was not started")
        return self._process

    def _running(self) -> BrokerProcess:
        process = self._running_or_ended()
        if not self.is_running:
            raise Unreachable(f"{self.describe()}; start it again with start()")
        return process

    def _cause(self) -> str:
        """Return the reason that the broker gave, or else the end of its log."""
        lines = self.log.splitlines()
        given = next((line.removeprefix(_REFUSAL) for line in reversed(lines) if line.startswith(_REFUSAL)), None)
        return given or "\n".join(["", *lines[-_SHOWN_LINES:]]) or "it logged nothing"


def _how(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    return "was killed" if -status == signal.SIGKILL else f"was ended by {signal.Signals(-status).name}"
