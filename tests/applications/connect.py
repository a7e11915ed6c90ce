"""Kafka Connect for tests: worker processes, and their REST interface."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.applications.jvm import Process, java
from tests.broker_process import free_address
from tests.chaos.cluster import wait_until

# Workers find the connectors by their manifests; scanning all jars takes seconds.
PLUGINS = {"plugin.discovery": "service_load"}
# For source connectors with exactly-once support: a producer keeps the last batch of a transaction until the commit.
#
# Without it, a commit of KafkaProducer 4.3.1 can leave out the records that were sent last. `Sender` reads whether
# there are incomplete batches before it takes the lock of `TransactionManager`, under which it dequeues EndTxn. If
# between the two the task sends the record with its offsets and calls commitTransaction, and all earlier records are
# acknowledged, EndTxn goes out without that record. The record stays in the producer, and the task fails at its next
# commit: "OffsetStorageWriter is already flushing". A restart of the task does not help: it would copy the committed
# records again, because their offsets were not committed. With the threads held at this point by a debugger,
# MirrorMaker fails so between two Apache Kafka 4.3.1, too. Transaction version 1 is not affected: AddPartitionsToTxn of
# the offsets topic goes out before EndTxn.
COMPLETE_TRANSACTIONS = {"producer.override.linger.ms": 600_000}
_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
_CONVERTERS = {"key.converter": _CONVERTER, "value.converter": _CONVERTER}
START_TIMEOUT_S = 120.0


def write_properties(path: Path, settings: Mapping[str, object]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


class Worker(Process):
    """A Connect worker with its REST interface; it keeps its address over restarts."""

    def __init__(self, class_name: str, folder: Path, settings: Mapping[str, object], *connectors: Path) -> None:
        folder.mkdir()
        self.address = free_address()
        listens = {"listeners": f"http://{self.address}"}
        properties = write_properties(folder / "worker.properties", {**PLUGINS, **_CONVERTERS, **listens, **settings})
        super().__init__(java(f"org.apache.kafka.connect.cli.{class_name}", properties, *connectors), folder / "log")

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Send a request to the REST interface and return the response; OSError if it is refused."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}/{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=60) as response:
            content = response.read()
        return json.loads(content) if content else None

    def wait_until_ready(self) -> None:
        """Return once the worker has joined its group, and returns the connectors."""
        wait_until(lambda: self._attempt("GET", "connectors"), f"{self.address} answers", START_TIMEOUT_S)

    def change(self, method: str, path: str, body: object = None) -> None:
        """Send a request that workers refuse during a rebalance, until it is accepted."""
        wait_until(lambda: self._attempt(method, path, body), f"{method} {path} accepted", START_TIMEOUT_S)

    def wait_for_state(self, connector: str, state: str, tasks: int = 1) -> None:
        """Return once a connector and its tasks are in a state."""
        wait_until(
            lambda: self._states(connector) == [state] * (1 + tasks),
            lambda: f"{connector} {state}: {self._states(connector)}",
            START_TIMEOUT_S,
        )

    def host_of(self, connector: str) -> str:
        """Return the address of the worker that runs the connector's first task."""
        address: str = self.call("GET", f"connectors/{connector}/status")["tasks"][0]["worker_id"]
        return address

    def _attempt(self, method: str, path: str, body: object = None) -> bool:
        self.check()
        try:
            self.call(method, path, body)
        except OSError as refused:
            if isinstance(refused, urllib.error.HTTPError):
                refused.close()
            return False
        return True

    def _states(self, connector: str) -> list[str]:
        try:
            status = self.call("GET", f"connectors/{connector}/status")
        except OSError as refused:
            if isinstance(refused, urllib.error.HTTPError):
                refused.close()
            return []
        return [part["state"] for part in (status["connector"], *status["tasks"])]


def file_source(name: str, file: Path, topic: str, **more: object) -> dict[str, object]:
    """Return the configuration of a source connector: each line of the file is a record of the topic."""
    own = {"name": name, "connector.class": "FileStreamSource", "tasks.max": 1, "file": str(file), "topic": topic}
    return own | more


def file_sink(name: str, topic: str, file: Path, **more: object) -> dict[str, object]:
    """Return the configuration of a sink connector: each record of the topic is a line of the file."""
    own = {"name": name, "connector.class": "FileStreamSink", "tasks.max": 1, "file": str(file), "topics": topic}
    return own | more
