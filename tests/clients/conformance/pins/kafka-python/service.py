"""kafka-python's test services: the address of an external broker, or a broker that is started by a command.

kafka-python's own ``test/service.py`` starts Apache Kafka from a distribution, and is not part of its releases.
"""

import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

READY = b"ready: "


class ExternalService:
    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """Do nothing: the broker runs already."""

    def close(self) -> None:
        """Do nothing: the owner of the broker stops it."""

    def dump_logs(self) -> None:
        """Do nothing: the log is where the broker was started."""

    def wait_for(self, pattern: str, timeout: float = 30) -> None:
        """Do nothing: the broker is ready, whatever it has logged."""


class SpawnedService:
    """A broker whose standard error is that of the tests."""

    def __init__(self, args: Sequence[str], env: Mapping[str, str]) -> None:
        self._args = args
        self._env = env
        self._printed = b""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._args, env=self._env, stdout=subprocess.PIPE)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()
            self._process = None

    def dump_logs(self) -> None:
        sys.stdout.write(self._printed.decode())

    def wait_for(self, pattern: str, timeout: float = 30) -> bool:
        """Return whether the broker becomes ready in time: until then, it has applied what `pattern` is of."""
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout
        while READY not in self._printed:
            if not select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return False
            chunk = os.read(self._process.stdout.fileno(), 4096)
            if not chunk:
                return False
            self._printed += chunk
        return True
