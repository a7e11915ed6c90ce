"""The instructions of OPERATIONS.md for a three-node cluster, a rolling restart and a lost majority work."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.broker_process import COMMAND, READY, free_address
from tests.repo.pages import blocks, text_of

PAGE = "docs/OPERATIONS.md"
NODES = ("1", "2", "3")


class Nodes:
    """The three nodes of the page, on free ports, each with its own folder."""

    def __init__(self, folder: Path) -> None:
        (self._settings,) = [block.text for block in blocks(PAGE) if block.file_name == "node-1.properties"]
        self._folder = folder
        self._ports: dict[Any, Any] = {}
        for address in {*re.findall(r"host-\d:9093", self._settings), *(f"host-{node}:9092" for node in NODES)}:
            self._ports[address] = int(free_address().rpartition(":")[2])
        self.bootstrap = ",".join(f"127.0.0.1:{self._ports[f'host-{node}:9092']}" for node in NODES)
        self._running: dict[str, subprocess.Popen[str]] = {}

    def data(self, node: str) -> Path:
        return self._folder / node

    def start(self, *nodes: str) -> None:
        for node in nodes or NODES:
            text = self._settings.replace("node.id=1", f"node.id={node}")
            text = re.sub(r"//host-1", f"//host-{node}", text).replace("/var/lib/barnabas", str(self.data(node)))
            for address, port in self._ports.items():
                text = text.replace(address, f"127.0.0.1:{port}")
            file = self._folder / f"node-{node}.properties"
            file.write_text(text)
            with open(self._folder / f"{node}.log", "ab") as log:
                command = [*COMMAND, "serve", "--config", str(file)]
                self._running[node] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        for node in nodes or NODES:
            output = self._running[node].stdout
            assert output is not None
            assert output.readline().startswith(READY)

    def stop(self, *nodes: str) -> list[int]:
        """Send SIGTERM to `nodes`, or to all; return their exit statuses."""
        stopped = [self._running.pop(node) for node in nodes or list(self._running)]
        for process in stopped:
            process.terminate()
        for process in stopped:
            process.communicate(timeout=60)
        return [process.returncode for process in stopped]

    def until_healthy(self) -> str:
        """Run `barnabas health` until it exits with 0, and return its output."""
        for _ in range(60):
            with suppress(subprocess.CalledProcessError):
                return self.call("health")
        return self.call("health")

    def call(self, *arguments: str, typed: str = "") -> str:
        command = [*COMMAND, *arguments, "-b", self.bootstrap]
        return subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(tmp_path)
    yield made
    made.stop()


def test_settings_of_the_page_make_a_cluster_that_keeps_metadata_after_losing_two_disks(nodes: Nodes) -> None:
    nodes.start()
    nodes.call("topic", "create", "orders:3")
    nodes.call("produce", "orders", "-X", "acks=all", typed="a\nb\n")
    before = json.loads(nodes.call("topic", "describe", "orders", "--json"))[0]["id"]
    nodes.stop()
    for node in NODES[1:]:
        shutil.rmtree(nodes.data(node))
        shutil.copytree(nodes.data("1") / "__cluster_metadata-0", nodes.data(node) / "__cluster_metadata-0")
        shutil.copy(nodes.data("1") / "bootstrap.checkpoint", nodes.data(node))
        lines = (nodes.data("1") / "meta.properties").read_text().splitlines()
        kept = [line.replace("node.id=1", f"node.id={node}") for line in lines if not line.startswith("directory.id")]
        (nodes.data(node) / "meta.properties").write_text("\n".join(kept) + "\n")
    nodes.start()
    assert json.loads(nodes.call("topic", "describe", "orders", "--json"))[0]["id"] == before
    controllers = json.loads(nodes.call("cluster", "--json"))["controllers"]
    assert sorted(one["status"] for one in controllers) == ["leader", "voter", "voter"]


def test_rolling_restart_loses_no_record_and_interrupts_no_producer(nodes: Nodes) -> None:
    assert "`barnabas health` prints `healthy: yes`" in text_of(PAGE)
    nodes.start()
    nodes.call("topic", "create", "orders:3")
    for node in NODES:
        assert "healthy: yes" in nodes.until_healthy()
        assert nodes.stop(node) == [0]
        nodes.call("produce", "orders", "-X", "acks=all", typed=f"while {node} is away\n")
        nodes.start(node)
    assert "healthy: yes" in nodes.until_healthy()
    read = nodes.call("consume", "orders", "-o", "beginning", "-e").splitlines()
    assert sorted(read) == [f"while {node} is away" for node in NODES]
