from __future__ import annotations

import pytest

from broker.security.sasl_mechanisms import AuthenticationError, MechanismError, PlainClient, PlainServer

USERS = {"alice": "secret", "zoë": "pässword"}


@pytest.mark.parametrize("user", USERS)
def test_client_authenticates_with_its_password(user: str) -> None:
    server, client = PlainServer(USERS), PlainClient(user, USERS[user])
    assert server.respond(client.first()) == b""
    assert server.user == user


def test_authorization_id_may_be_the_user() -> None:
    server = PlainServer(USERS)
    server.respond(b"alice\0alice\0secret")
    assert server.user == "alice"


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0Secret", "Invalid username or password"),
        (b"\0nobody\0secret", "Invalid username or password"),
        (b"\0nobody\0terces", "Invalid username or password"),
        (b"zo\xc3\xab\0alice\0secret", "authorization id that is different from username"),
    ],
)
def test_wrong_password_and_foreign_authorization_id_are_refused(token: bytes, message: str) -> None:
    server = PlainServer(USERS)
    with pytest.raises(AuthenticationError, match=message):
        server.respond(token)
    assert server.user is None


@pytest.mark.parametrize("token", [b"", b"alice\0secret", b"\0\0secret", b"\0alice\0", b"\0a\0b\0c", b"\0\xff\0x"])
def test_damaged_token_is_refused(token: bytes) -> None:
    with pytest.raises(MechanismError):
        PlainServer(USERS).respond(token)
