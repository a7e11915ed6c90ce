"""A broker process, started by the command line; its address comes from its ready line."""

import os
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import SystemRandom

# Another broker with the same command line can replace it, to run the tests against Apache Kafka.
COMMAND = shlex.split(os.environ.get("BARNABAS_TEST_COMMAND", f"{sys.executable} -m barnabas"))

READY = "ready: "
CONTROL = "control: "

FIRST_PORT = 10_000
_RANDOM = SystemRandom()
_RETURNED: set[int] = set()

# For groups in tests: sessions of killed members expire soon, and the first rebalance has no delay.
QUICK_GROUPS = {"group.min.session.timeout.ms": 1000, "group.initial.rebalance.delay.ms": 0}


def free_address() -> str:
    """Return a free address, for a broker that needs to know its own before it starts.

    Its port is below the ephemeral range: a client's connection could take an ephemeral port before the broker binds
    it, or while the broker is down. No address is returned twice.
    """
    while True:
        port = _RANDOM.randrange(FIRST_PORT, first_ephemeral_port())
        if port not in _RETURNED:
            with suppress(OSError), socket.create_server(("127.0.0.1", port)):
                _RETURNED.add(port)
                return f"127.0.0.1:{port}"


def first_ephemeral_port() -> int:
    """Return the first ephemeral port."""
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except FileNotFoundError:
        first = 49152  # the range of IANA and macOS
    return max(first, 2 * FIRST_PORT)  # where the ephemeral range begins that low, part of it is used


class BrokerProcess:
    """One broker with its own data directory.

    It keeps its port over restarts, since clients reconnect to it, unless its properties have listeners. Its standard
    error goes to ``log``.
    """

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, object] | None = None,
        within: Sequence[str] = (),
        options: Sequence[str] = (),
    ) -> None:
        """Create a broker in `directory`, with more `options` of `barnabas serve`.

        The command `within` runs it, such as one that enters a namespace.
        """
        self.data_dir = directory / "data"
        self.log = directory / "broker.log"
        self.bootstrap = "127.0.0.1:0"
        self.control = ""
        """The URL of the control API, with the token, if the broker has one."""
        self._settings = [f"-D{name}={value}" for name, value in (properties or {}).items()]
        self._settings += options
        self._has_log_dirs = "log.dirs" in (properties or {})
        self._has_listeners = "listeners" in (properties or {})
        self._command = [*within, *COMMAND]
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def start(self, timeout_s: float = 30) -> "BrokerProcess":
        """Start the broker and return when it has printed its ready line."""
        where = [] if self._has_log_dirs else ["--data-dir", str(self.data_dir)]
        listen = [] if self._has_listeners else ["--listen", self.bootstrap]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "serve", *listen, *self._settings, *where],
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.bootstrap = self._ready_address(self._process, time.monotonic() + timeout_s)
        return self

    @property
    def pid(self) -> int:
        return self._running.pid

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._running.kill()
        self._forget()

    def stop(self, timeout_s: float = 30) -> int:
        """Stop the broker with SIGTERM, and return its exit status."""
        self._running.send_signal(signal.SIGTERM)
        try:
            return self._running.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._running.kill()
            raise
        finally:
            self._forget()

    def check_log(self) -> None:
        """Fail if the log has a traceback or a warning of the event loop."""
        log = self.log.read_text()
        assert "Traceback" not in log, log
        assert "ERROR asyncio" not in log, log

    def __enter__(self) -> "BrokerProcess":
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.kill()

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the broker is not running")
        return self._process

    def _forget(self) -> None:
        process, self._process = self._running, None
        process.wait()
        if process.stdout:
            process.stdout.close()

    def _ready_address(self, process: subprocess.Popen[bytes], deadline: float) -> str:
        assert process.stdout is not None
        printed = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while selector.select(max(0.0, deadline - time.monotonic())):
                chunk = os.read(process.stdout.fileno(), 4096)
                printed += chunk
                for line in printed.decode().splitlines(keepends=True):
                    if line.startswith(CONTROL) and line.endswith("\n"):
                        self.control = line.removeprefix(CONTROL).strip()
                    if line.startswith(READY) and line.endswith("\n"):
                        return line.removeprefix(READY).strip()
                if not chunk:
                    break
        self.kill()
        raise RuntimeError(f"no ready line; it printed {printed!r} and logged:\n{self.log.read_text()}")
