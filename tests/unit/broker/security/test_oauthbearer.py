from __future__ import annotations

import pytest

from broker.security.oauthbearer import INVALID_TOKEN, BearerToken, InvalidToken, OAuthBearerServer
from broker.security.sasl_mechanisms import AuthenticationError, MechanismError


def validate(token: str) -> BearerToken:
    if token != "good.token":
        raise InvalidToken("bad signature", "mallory" if token == "forged.token" else "")
    return BearerToken("alice", 5000)


def test_valid_token_authenticates_its_user_until_it_expires() -> None:
    server = OAuthBearerServer(validate)
    assert server.respond(b"n,,\x01auth=Bearer good.token\x01\x01") == b""
    assert (server.user, server.credential_lifetime_ms) == ("alice", 5000)


@pytest.mark.parametrize(
    "message",
    [
        b"n,a=alice,\x01auth=Bearer good.token\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01traceId=1 2\x01logicalCluster=lkc\x01\x01",
        b"n,,\x01host=h\x01port=1\x01auth=bearer good.token\x01\x01",
    ],
)
def test_authorization_id_and_extensions_are_accepted(message: bytes) -> None:
    server = OAuthBearerServer(validate)
    assert server.respond(message) == b""
    assert server.user == "alice"


def test_invalid_token_is_answered_and_then_fails_without_its_reason_for_the_client() -> None:
    server = OAuthBearerServer(validate)
    assert server.respond(b"n,,\x01auth=Bearer forged.token\x01\x01") == b'{"status":"invalid_token"}'
    assert server.user is None
    with pytest.raises(MechanismError, match="bad signature") as refused:
        server.respond(b"\x01")
    assert refused.value.user == "mallory"
    with pytest.raises(MechanismError):  # a second token on the same exchange
        server.respond(b"n,,\x01auth=Bearer good.token\x01\x01")
    assert server.user is None


def test_authorization_id_of_another_user_is_refused() -> None:
    server = OAuthBearerServer(validate)
    with pytest.raises(AuthenticationError, match=r"authorization id \(admin\)") as refused:
        server.respond(b"n,a=admin,\x01auth=Bearer good.token\x01\x01")
    assert refused.value.user == "alice"
    assert server.user is None


def test_token_without_a_user_is_refused_with_the_authorization_id_as_the_user() -> None:
    server = OAuthBearerServer(validate)
    assert server.respond(b"n,a=bob=2C=3D,\x01auth=Bearer other.token\x01\x01") == INVALID_TOKEN
    with pytest.raises(MechanismError, match="bad signature") as refused:
        server.respond(b"\x01")
    assert refused.value.user == "bob,="


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic good.token\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer good.token\x01auth=Bearer forged.token\x01\x01",
        b"n,,\x01auth=x\x01auth=Bearer good.token\x01\x01",
        b"y,,\x01auth=Bearer good.token\x01\x01",
        b"\0alice\0secret",
        b"\xff\xfe",
        b"n,,\x01auth=Bearer good.token\x01\x01\x01",
        b"n,,\x01auth=Bearer good.token\x01\x01auth=Bearer forged.token",
        b"n,,\x01" + b"a=b\x01" * 20_000,
        b"n,,\x01auth=Bearer " + b"a" * 500_000,
        b"n,,\x01" + b"auth=Bearer a\x01" * 8_000 + b"a=\x01" * 130_000 + b"X",  # minutes if parts are tried twice
        b"n,,\x01" + b"auth=Bearer a\x01" * 38_000 + b"\x01",
        b"n,,\x01" + b"auth=" * 100_000 + b"\x01\x01",
        b"n,a=" + b"=2C" * 170_000,
    ],
)
def test_invalid_message_is_refused(message: bytes) -> None:
    server = OAuthBearerServer(validate)
    with pytest.raises(MechanismError, match="Invalid OAUTHBEARER client first message"):
        server.respond(message)
    assert server.user is None
