"""Tokens as the commands print and find them; `token/` has the tests of the commands."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from typing import Any

import pytest

from barnabas.commands import _tokens
from barnabas.commands._output import Report
from barnabas.commands._tokens import Token, change_tokens, find_tokens, period_ms

TOKEN = Token("FvuC4c", "User:a", "User:b", ["User:c"], 0, 1000, 86_400_000, b"hmac")


def test_a_row_has_the_secret_only_on_request() -> None:
    assert TOKEN.row(with_hmac=False) == {
        "token": "FvuC4c",
        "owner": "User:a",
        "requester": "User:b",
        "renewers": ["User:c"],
        "issued": "1970-01-01T00:00:00Z",
        "expires": "1970-01-01T00:00:01Z",
        "max": "1970-01-02T00:00:00Z",
    }
    assert TOKEN.row(with_hmac=True)["hmac"] == "aG1hYw=="


def test_tokens_are_found_once_and_similar_ids_suggested() -> None:
    assert find_tokens(["FvuC4c", "FvuC4c"], [TOKEN]) == ([TOKEN], {})
    found, missing = find_tokens(["FvuC4d"], [TOKEN])
    assert found == []
    assert missing == {"FvuC4d": "this user sees no such token; did you mean FvuC4c?"}


def test_periods_are_positive() -> None:
    assert period_ms("1h30m") == 5_400_000
    with pytest.raises(ArgumentTypeError, match="the least is 1s"):
        period_ms("0s")


def test_hmac_in_place_of_an_id_is_not_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_tokens, "list_tokens", lambda _: [TOKEN])
    report = Report(Namespace(command="token renew", json=False))
    client: Any = None
    change_tokens(client, report, ["c2VjcmV0" * 11], lambda _: None)
    assert report.end() == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        "barnabas token renew: a long TOKEN: write the ids of tokens, not their HMACs; "
        "`barnabas token list` has the ids\n"
    )
