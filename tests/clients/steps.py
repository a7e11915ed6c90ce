"""A transactional producer as a process that runs one step after the other."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from pathlib import Path
from typing import Any

from tests.clients.clients import Client
from tests.typed import present

STEP_TIMEOUT_S = 30
TIMEOUT_MS = 60_000


class StepError(Exception):
    """The client raised an error in a step; the text is the client's."""


class Steps:
    """One process of a client, with a transactional id; for `pipe`, a member of the id's group that reads a topic."""

    def __init__(
        self, client: Client, bootstrap: str, transactional_id: str, topic: str, log: Path, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        command = client.transactions(bootstrap, transactional_id, timeout_ms, f"{transactional_id}-group", topic)
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._log = log
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process: it neither ends its transaction nor leaves its group."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            present(pipe).close()

    def end(self) -> None:
        """End the standard input: the process leaves its group and ends."""
        present(self._process.stdin).close()
        assert self._process.wait(STEP_TIMEOUT_S) == 0, self._log.read_text()

    def run(self, *step: str | int) -> Any:
        """Run a step and return its result; raise StepError if the client raised an error."""
        steps = present(self._process.stdin)
        steps.write(json.dumps(step) + "\n")
        steps.flush()
        while not (line := self._lines.get(timeout=STEP_TIMEOUT_S)).startswith("{"):
            assert line, f"{step}: the program ended\n{self._log.read_text()}"
        answer = json.loads(line)
        if "error" in answer:
            raise StepError(answer["error"])
        return answer["done"]

    def _read(self) -> None:
        for line in present(self._process.stdout):
            self._lines.put(line)
        self._lines.put("")
