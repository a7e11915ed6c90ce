from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from barnabas import __main__, __version__
from barnabas.commands._parser import COMMANDS
from tests.broker_process import free_address
from tests.unit.barnabas.conftest import Command


def test_help_explains_every_command(call: Command) -> None:
    shown = call("--help")
    assert shown == call("-h") == call("help")
    assert (shown.status, shown.err) == (0, "")
    assert all(f"\n  {command} " in shown.out for command in ("serve", *COMMANDS))


def test_the_version_is_the_package_s(call: Command) -> None:
    assert call("--version") == call("-V") == (0, f"barnabas {__version__}\n", "")


def test_no_command_is_a_wrong_call(call: Command) -> None:
    assert call() == (2, "", call("--help").out)


def test_an_unknown_command_is_named(call: Command) -> None:
    assert call("sevre") == (2, "", "barnabas: unknown command 'sevre'; did you mean serve?\n")
    assert call("x") == (2, "", "barnabas: unknown command 'x'; `barnabas --help` lists them\n")


def test_version_has_a_short_option(call: Command) -> None:
    assert call("-v") == (2, "", "barnabas: there is no option -v; did you mean --version?\n")


def test_option_before_the_command_is_refused_with_its_position(call: Command) -> None:
    expected = "barnabas: --json stands before the command; options come after it\n"
    assert call("--json", "topic", "list") == (2, "", expected)


def test_help_is_also_a_command(call: Command) -> None:
    assert call("help", "topic", "list") == call("topic", "list", "--help")
    assert call("help", "group").out.startswith("usage: barnabas group COMMAND")
    assert call("topic", "help") == call("topic", "--help")
    assert call("topic", "help", "list") == call("topic", "list", "--help")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_imports_no_client_library(command: str) -> None:
    line = [sys.executable, "-X", "importtime", "-m", "barnabas", *command.split(), "--help"]
    imported = subprocess.run(line, capture_output=True, text=True, check=True).stderr
    assert "barnabas" in imported
    assert "kafka" not in imported


def test_serve_replaces_the_process_with_the_server() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "serve", "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("usage: barnabas serve ")
    assert "--data-dir DIR" in done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["topic", "list", "--help"]])
def test_closed_output_pipe_is_no_error(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    line = [sys.executable, "-m", "barnabas", *arguments]
    done = subprocess.run(line, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", ["--help", "--version", "topic list --help", "serve --help"])
def test_output_to_a_full_disk_is_an_error_of_one_line(arguments: str, unbuffered: str) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        line = [sys.executable, "-m", "barnabas", *arguments.split()]
        environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(line, env=environment, stdout=full, stderr=subprocess.PIPE, check=False)
    program = "barnabas serve" if arguments.startswith("serve") else "barnabas"
    message = f"{program}: cannot write standard output: No space left on device\n"
    assert (done.returncode, done.stderr.decode()) == (1, message)


@pytest.mark.parametrize(("arguments", "status"), [("--help", 0), ("--version", 0), ("serve --help", 0), ("x", 2)])
def test_closed_standard_streams_are_no_error(arguments: str, status: int) -> None:
    command = f"{sys.executable} -m barnabas {arguments}"
    done = subprocess.run(["sh", "-c", f"{command} >&-"], stderr=subprocess.PIPE, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (status, False)
    assert subprocess.run(["sh", "-c", f"{command} >&- 2>&-"], check=False).returncode == status


def test_unread_ready_line_does_not_stop_the_broker() -> None:
    read, write = os.pipe()
    os.close(read)
    line = "from broker.__main__ import _print; _print('ready\\n'); _print('again\\n')"
    done = subprocess.run(
        [sys.executable, "-c", line], cwd=Path(__file__).parents[3], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_broker_with_closed_standard_streams_stops_cleanly(closed: str) -> None:
    address = free_address()
    line = f"exec {sys.executable} -m barnabas serve --ephemeral --listen {address} {closed}"
    process = subprocess.Popen(["sh", "-c", line], stderr=subprocess.PIPE)
    host, port = address.split(":")
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None
        assert time.monotonic() < deadline
        with contextlib.suppress(ConnectionError), socket.create_connection((host, int(port))):
            break
    process.terminate()
    _, log = process.communicate(timeout=60)
    assert (process.returncode, b"Assertion" in log) == (0, False)


def test_broker_that_cannot_print_its_ready_line_stops() -> None:
    line = [sys.executable, "-m", "barnabas", "serve", "--ephemeral", "--listen", "127.0.0.1:0", "--log-level", "error"]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    message = b"barnabas: cannot write standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_interrupt_during_the_imports_prints_no_traceback(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(__main__, "_run", interrupted)
    assert call("topic", "list") == (130, "", "")
