from __future__ import annotations

import subprocess
import sys

import pytest

from barnabas import __version__
from barnabas.commands._parser import COMMANDS
from tests.unit.barnabas.conftest import Command


def test_help_explains_every_command(call: Command) -> None:
    said = call("--help")
    assert said == call("-h") == call("help")
    assert (said.status, said.err) == (0, "")
    assert all(f"\n  {command} " in said.out for command in ("serve", *COMMANDS))


def test_the_version_is_the_package_s(call: Command) -> None:
    assert call("--version") == call("-V") == (0, f"barnabas {__version__}\n", "")


def test_no_command_is_a_wrong_call(call: Command) -> None:
    assert call() == (2, "", call("--help").out)


def test_an_unknown_command_is_named(call: Command) -> None:
    assert call("sevre") == (2, "", "barnabas: unknown command 'sevre'; did you mean serve?\n")
    assert call("x") == (2, "", "barnabas: unknown command 'x'; `barnabas --help` lists them\n")


def test_an_option_before_the_command_is_told_its_place(call: Command) -> None:
    expected = "barnabas: -b stands before the command; options come after it\n"
    assert call("-b", "127.0.0.1:9092", "topic", "list") == (2, "", expected)


def test_help_may_be_asked_for_as_a_command(call: Command) -> None:
    assert call("help", "topic", "list") == call("topic", "list", "--help")
    assert call("help", "group").out.startswith("usage: barnabas group COMMAND")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_imports_no_client_library(command: str) -> None:
    line = [sys.executable, "-X", "importtime", "-m", "barnabas", *command.split(), "--help"]
    imported = subprocess.run(line, capture_output=True, text=True, check=True).stderr
    assert "barnabas" in imported
    assert "kafka" not in imported


def test_serve_becomes_the_server_s_program_whose_options_are_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "serve", "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("usage: barnabas serve ")
    assert "--data-dir DIR" in done.stdout
