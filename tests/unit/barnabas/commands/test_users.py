from __future__ import annotations

import io

import pytest

from barnabas.commands._output import CommandError, WrongCall
from barnabas.commands._users import read_password


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the lines that a terminal's user types without echo."""
    lines: list[str] = []
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda _prompt: lines.pop(0))
    return lines


def test_typed_password_is_the_same_twice(typed: list[str]) -> None:
    typed += ["secret", "secret"]
    assert read_password(None, "alice", environment={}) == "secret"
    typed += ["secret", "sceret"]
    with pytest.raises(CommandError, match="the two passwords differ"):
        read_password(None, "alice", environment={})
    typed += ["", ""]
    with pytest.raises(WrongCall, match="the password is empty"):
        read_password(None, "alice", environment={})


def test_environment_spares_the_question(typed: list[str]) -> None:
    assert read_password(None, "alice", environment={"BARNABAS_USER_PASSWORD": "secret"}) == "secret"
    assert typed == []
