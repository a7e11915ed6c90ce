"""Three brokers as processes, each with the control API."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.broker_process import COMMAND, CONTROL, READY, free_address
from tests.clients.control import ControlClient

IDS = (1, 2, 3)


class ControlledCluster:
    """The brokers, each also a controller."""

    def __init__(self, directory: Path, **settings: object) -> None:
        """Start them; names of settings are written with _ for each dot."""
        addresses = {node_id: free_address() for node_id in IDS}
        voters = {node_id: free_address() for node_id in IDS}
        self.bootstrap = ",".join(addresses.values())
        self.logs = {node_id: directory / f"{node_id}.log" for node_id in IDS}
        self.control: dict[int, ControlClient] = {}
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._stack = ExitStack()
        common = {name.replace("_", "."): value for name, value in settings.items()} | {
            "barnabas.control.listener": "127.0.0.1:0",
            "barnabas.test.profile": "true",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{node_id}@{address}" for node_id, address in voters.items()),
            "default.replication.factor": 3,
            "min.insync.replicas": 2,
        }
        for node_id in IDS:
            own = {
                "node.id": node_id,
                "process.roles": "broker,controller",
                "listeners": f"PLAINTEXT://{addresses[node_id]},CONTROLLER://{voters[node_id]}",
                "log.dirs": directory / str(node_id),
            }
            self._processes[node_id] = self._start(node_id, common | own)
        for node_id, process in self._processes.items():
            self.control[node_id] = self._await_ready(node_id, process)

    def _start(self, node_id: int, settings: dict[str, object]) -> subprocess.Popen[str]:
        arguments = [f"-D{name}={value}" for name, value in settings.items()]
        with open(self.logs[node_id], "wb") as log:
            process = subprocess.Popen([*COMMAND, "serve", *arguments], stdout=subprocess.PIPE, stderr=log, text=True)
        self._stack.callback(process.communicate)
        self._stack.callback(process.kill)
        return process

    def _await_ready(self, node_id: int, process: subprocess.Popen[str]) -> ControlClient:
        """Wait for the ready line; return the broker's control."""
        assert process.stdout is not None
        url = ""
        for line in process.stdout:
            if line.startswith(CONTROL):
                url = line.removeprefix(CONTROL).strip()
            if line.startswith(READY):
                return ControlClient(url)
        raise RuntimeError(self.logs[node_id].read_text())

    def log(self) -> str:
        """Return what all brokers have logged."""
        return "".join(path.read_text() for path in self.logs.values())

    def __enter__(self) -> ControlledCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
