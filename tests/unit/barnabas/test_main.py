import subprocess
import sys

import pytest

from barnabas import __version__
from barnabas.__main__ import CLIENT_COMMANDS, USAGE


def test_help_explains_every_command(call):
    assert call("--help") == call("-h") == call("help") == (0, USAGE, "")
    assert all(f"\n  {command} " in USAGE for command in ("serve", *CLIENT_COMMANDS))


def test_the_version_is_the_package_s(call):
    assert call("--version") == call("-V") == (0, f"barnabas {__version__}\n", "")


def test_no_command_is_a_wrong_call(call):
    assert call() == (2, "", USAGE)


def test_an_unknown_command_is_named(call):
    status, out, err = call("sevre")
    assert (status, out) == (2, "")
    assert err.startswith("barnabas: unknown command 'sevre'\n\nusage: barnabas COMMAND")


@pytest.mark.parametrize("command", CLIENT_COMMANDS)
def test_each_command_has_help_of_its_own(call, command):
    status, out, _ = call(command, "--help")
    assert status == 0
    assert out.startswith(f"usage: barnabas {command} ")


def test_help_imports_no_client_library():
    command = [sys.executable, "-X", "importtime", "-m", "barnabas", "topic", "--help"]
    imported = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "argparse" in imported
    assert "kafka" not in imported


def test_serve_becomes_the_server_s_program_whose_options_are_its_own():
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "serve", "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("usage: barnabas serve ")
    assert "--data-dir DIR" in done.stdout
