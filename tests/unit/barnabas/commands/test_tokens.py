"""Tokens as the commands print and find them; `token/` has the tests of the commands."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from barnabas.commands._tokens import Token, find_tokens, period_ms

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
