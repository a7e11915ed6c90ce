"""The processes that a program leaves: found by a mark in their environment, which all of its descendants inherit."""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

VARIABLE = "BARNABAS_TEST_MARK"


class Mark:
    """A mark for the processes of one program."""

    def __init__(self) -> None:
        self._entry = f"{VARIABLE}={uuid4()}"

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a program whose processes get this mark."""
        name, _, value = self._entry.partition("=")
        return os.environ | {name: value} | more

    def processes(self) -> list[int]:
        """Return the ids of the processes that have the mark, zombies left out."""
        found = []
        for place in Path("/proc").iterdir():
            with suppress(OSError):
                if place.name.isdecimal() and self._entry.encode() in (place / "environ").read_bytes().split(b"\0"):
                    found.append(int(place.name))
        return sorted(found)

    def left_after(self, seconds: float, but: int = 0) -> list[int]:
        """Return the processes with the mark, except one, that have not ended in time; as soon as there is none."""
        deadline = time.monotonic() + seconds
        while left := [process for process in self.processes() if process != but]:
            for process in left:
                with suppress(ProcessLookupError):
                    descriptor = os.pidfd_open(process)
                    poll = select.poll()
                    poll.register(descriptor, select.POLLIN)
                    ended = poll.poll(max(0, deadline - time.monotonic()) * 1000)
                    os.close(descriptor)
                    if not ended:
                        return left
        return []
