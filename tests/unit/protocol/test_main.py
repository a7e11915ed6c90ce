from __future__ import annotations

import pytest

from protocol.__main__ import main


def test_the_functions_of_a_message_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["FetchResponse", "18"]) == 0
    printed = capsys.readouterr().out
    assert "def decode(buf, at):" in printed
    assert "def encode(message, out, cuts):" in printed


def test_unknown_message_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("FetchReply", "StreamsGroupDescribeRequest"):
        assert main([name, "0"]) == 2
        assert f"unknown message: {name}" in capsys.readouterr().err
    assert main(["FetchResponse", "99"]) == 2
    assert "versions 4 to 18" in capsys.readouterr().err


def test_without_arguments_the_usage_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "python -m protocol FetchResponse 18" in capsys.readouterr().err
