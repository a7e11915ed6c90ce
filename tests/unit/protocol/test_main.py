from __future__ import annotations

import subprocess
import sys

import pytest

from protocol.__main__ import main


def test_the_functions_of_a_message_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["FetchResponse", "18"]) == 0
    printed = capsys.readouterr().out
    assert "def decode(buf, at):" in printed
    assert "def encode(message, out, cuts):" in printed
    assert main(["fetch_response", "18"]) == 0
    assert capsys.readouterr().out == printed


def test_printing_ends_quietly_if_the_reader_has_exited() -> None:
    command = [sys.executable, "-m", "protocol", "FetchResponse", "18"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as printing:
        assert printing.stdout is not None
        assert printing.stderr is not None
        printing.stdout.close()
        assert printing.stderr.read() == b""
    assert printing.returncode == 0


def test_unknown_message_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("FetchReply", "StreamsGroupDescribeRequest"):
        assert main([name, "0"]) == 2
        assert f"unknown message: {name}" in capsys.readouterr().err
    assert main(["FetchResponse", "99"]) == 2
    assert "versions 4 to 18" in capsys.readouterr().err


def test_without_arguments_the_usage_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "python -m protocol FetchResponse 18" in capsys.readouterr().err
