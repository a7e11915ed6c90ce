"""Log lines about the logs that a start finds on a real disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from broker.log_dirs.loading import open_found_logs
from storage.disk import OsDisk
from storage.log.log import LogConfig
from storage.log_manager import LogManager
from tests.logs import NOW_MS, TOPIC_ID, fill


class Start:
    """Starts on one log directory."""

    def __init__(self, path: Path, caplog: pytest.LogCaptureFixture) -> None:
        self.path = path
        self.caplog = caplog
        self.logs: LogManager | None = None

    def __call__(self) -> LogManager:
        """Open the directory, after clearing earlier log lines."""
        self.caplog.clear()
        self.logs = logs = LogManager(OsDisk(), [str(self.path)], LogConfig(), now_ms=lambda: NOW_MS, random=Random(1))
        logs.open()
        is_new = logs.directories[0].meta is None
        logs.format("WV5yoIVIQ7q2wIB0pOwZQg", 1)
        asyncio.run(open_found_logs(logs, is_new=is_new))
        return logs

    def end(self, *, clean: bool) -> None:
        if self.logs is not None:
            self.logs.close(clean=clean)
            self.logs = None


@pytest.fixture
def start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Start]:
    caplog.set_level("INFO", logger="broker")
    made = Start(tmp_path, caplog)
    yield made
    made.end(clean=False)


def test_new_directory_and_clean_stop_log_nothing(start: Start) -> None:
    fill(start().create("t", TOPIC_ID, 0, LogConfig()), 3)
    assert start.caplog.messages == []
    start.end(clean=True)
    assert start().get("t", 0) is not None
    assert start.caplog.messages == []


def test_recovery_after_unclean_stop_is_logged(start: Start) -> None:
    fill(start().create("t", TOPIC_ID, 0, LogConfig()), 3)
    start.end(clean=False)
    start()
    first, *_, last = start.caplog.messages
    assert first == "The last shutdown was unclean: recovering logs from their recovery points"
    assert last.startswith("Recovery checked ")
    assert last.endswith(" bytes and truncated 0")


def test_truncated_bytes_are_logged_with_repair_hint(start: Start) -> None:
    fill(start().create("t", TOPIC_ID, 0, LogConfig()), 3)
    start.end(clean=False)
    with (start.path / "t-0" / "00000000000000000000.log").open("ab") as file:
        file.write(b"torn")
    start()
    assert "truncated 4" in start.caplog.text
    assert "`barnabas log repair`" in start.caplog.messages[-1]


def test_unknown_files_are_logged_and_kept(start: Start) -> None:
    start.end(clean=True)
    (start.path / "notes").mkdir(parents=True)
    start()
    assert start.caplog.messages == [f"Ignoring unknown files: {start.path}/notes"]
    assert (start.path / "notes").is_dir()
