"""Members of a consumer group as processes, observed through the records that they print."""

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.clients.clients import Client, Record


class Member:
    """One member: a process, and every record that it has printed so far."""

    def __init__(self, client: Client, command: Sequence[str], changed: threading.Condition, log: Path) -> None:
        self.records: list[Record] = []
        self._client = client
        self._changed = changed
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def values(self) -> set[str | None]:
        return {record.value for record in self.records}

    def kill(self) -> None:
        """Kill the process: it neither leaves its group nor commits."""
        self._process.kill()
        self._end()

    def stop(self, timeout_s: float = 60) -> None:
        """Send SIGTERM: the process commits, leaves the group and ends."""
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        finally:
            self.kill()

    @property
    def ended(self) -> int | None:
        return self._process.poll()

    def _end(self) -> None:
        self._process.wait()
        self._reader.join()
        if self._process.stdout:
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            record = self._client.parse(line)
            if record is not None:
                with self._changed:
                    self.records.append(record)
                    self._changed.notify_all()


class Group:
    """The members of one group on one topic."""

    def __init__(self, bootstrap: str, topic: str, assignor: str, logs: Path) -> None:
        self.name = f"{topic}-group"
        self.members: list[Member] = []
        self.logs = logs
        self._changed = threading.Condition()
        self._bootstrap, self._topic, self._assignor = bootstrap, topic, assignor

    def start_member(self, client: Client, instance: str = "") -> Member:
        command = client.member(self._bootstrap, self._topic, self.name, self._assignor, instance)
        log = self.logs / f"member-{len(self.members)}.log"
        member = Member(client, command, self._changed, log)
        self.members.append(member)
        return member

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until the condition holds, evaluating it whenever a member prints; return whether it does."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            return self._changed.wait_for(condition, max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        for member in self.members:
            member.kill()
