"""The launcher of this process: the fork server on Linux, else one interpreter for each broker.

On macOS, a process that has loaded the system's frameworks may crash when it forks. BARNABAS_TEST_FORK=0 turns the fork
server off on Linux too.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading

from barnabas.testing._processes import Launcher
from barnabas.testing.errors import ClusterError


class _Current:
    """The launcher of this process, made at the first use; a fork of the process makes its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._launcher: Launcher | None = None
        self._registered = False

    def get(self) -> Launcher:
        with self._lock:
            if self._launcher is None or not self._launcher.usable:
                if self._launcher is not None:
                    self._launcher.close()  # the fork server was killed
                    self._launcher = None
                self._launcher = _new()
            if not self._registered:
                self._registered = True
                os.register_at_fork(after_in_child=self._after_fork)
                atexit.register(self._at_exit)
            return self._launcher

    def _after_fork(self) -> None:
        self._lock = threading.Lock()  # another thread of the parent may have held it
        if self._launcher is not None:
            self._launcher.leave_to_parent()
            self._launcher = None

    def _at_exit(self) -> None:
        if self._launcher is not None:
            self._launcher.close()


_current = _Current()


def launcher() -> Launcher:
    """Return the launcher of this process; ClusterError if brokers cannot run on this system."""
    return _current.get()


def _new() -> Launcher:
    if sys.platform == "win32":
        raise ClusterError("Barnabas needs Linux or macOS: on Windows, run the tests in WSL or in a container")
    if sys.platform == "linux" and os.environ.get("BARNABAS_TEST_FORK") != "0":
        from barnabas.testing._fork_client import ForkClient

        return ForkClient()
    from barnabas.testing._spawner import Spawner

    return Spawner()
