"""A directory that is removed when the last process closes its descriptor."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas import _ephemeral
from barnabas.__main__ import main
from barnabas._ephemeral import make_directory, temporary_directory
from tests.broker_process import COMMAND, READY
from tests.typed import present


def test_directory_is_removed_at_the_end_of_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with temporary_directory() as (path, _):
        assert os.path.dirname(path) == str(tmp_path)
        (Path(path) / "file").write_text("x")
    assert list(tmp_path.iterdir()) == []


def test_directory_stays_while_a_process_holds_the_inherited_descriptor(tmp_path: Path) -> None:
    program = """
import os, subprocess, sys
from barnabas._ephemeral import temporary_directory
with temporary_directory() as (path, keeping):
    script = 'read -r end; : > "$0/late"; echo "$0"; read -r end'
    subprocess.Popen(["sh", "-c", script, path], pass_fds=[keeping])
    os.kill(os.getpid(), 9)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as killed:
        assert killed.wait(60) == -signal.SIGKILL
        inherited = present(killed.stdin)
        inherited.write(b"\n")
        inherited.flush()
        path = Path(present(killed.stdout).readline().decode().strip())
        assert (path / "late").exists()
    deadline = time.monotonic() + 60
    while path.exists():
        assert time.monotonic() < deadline


def test_without_a_shell_the_broker_creates_and_removes_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(_ephemeral, "SHELL", str(tmp_path / "sh"))
    descriptors = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        make_directory()
    assert (list(tmp_path.iterdir()), os.listdir("/proc/self/fd")) == ([], descriptors)
    executed: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, arguments: executed.append(arguments))
    monkeypatch.setattr(sys, "argv", ["barnabas", "serve", "--ephemeral"])
    main()
    assert executed[0][2:] == ["serve", "--ephemeral"]


def test_interrupt_after_the_directory_is_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    descriptors = os.listdir("/proc/self/fd")
    mkdir = os.mkdir

    def interrupted(*arguments: Any) -> None:
        mkdir(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_directory()
    assert (list(tmp_path.iterdir()), os.listdir("/proc/self/fd")) == ([], descriptors)


@contextmanager
def serve(*options: str, by: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    command = [*by, *COMMAND, "serve", "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert present(process.stdout).readline().startswith(READY)
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_data_of_an_ephemeral_broker_is_removed_after_any_exit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with serve("--ephemeral") as process:
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(number)
        assert process.wait(60) == (-number if number == signal.SIGKILL else 0)
    deadline = time.monotonic() + 60
    while list(tmp_path.iterdir()):
        assert time.monotonic() < deadline


def test_ephemeral_broker_has_and_reports_no_initial_rebalance_delay_by_default() -> None:
    for options, shown in ((), True), (("-Dgroup.initial.rebalance.delay.ms=5",), False):
        with serve("--ephemeral", "--log-level", "debug", *options) as process:
            process.terminate()
            log = process.communicate(timeout=60)[1]
        assert ("group.initial.rebalance.delay.ms=0" in log) is shown


def test_ignored_sighup_does_not_stop_a_broker(tmp_path: Path) -> None:
    with serve("--data-dir", str(tmp_path), by=["nohup"]) as process:
        process.send_signal(signal.SIGHUP)
        assert signal_is_ignored(process.pid, signal.SIGHUP)
        process.terminate()
        assert process.wait(60) == 0


def signal_is_ignored(pid: int, number: signal.Signals) -> bool:
    """Return whether a process ignores a signal, also while one is pending."""
    (mask,) = re.findall(r"^SigIgn:\s+([0-9a-f]+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(mask, 16) >> (number - 1) & 1)
