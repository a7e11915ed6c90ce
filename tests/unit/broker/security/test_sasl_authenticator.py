"""The states of an authentication, without I/O."""

from __future__ import annotations

import pytest

from broker.network.connection import Connection, context_of
from broker.security.sasl_authenticator import SaslAuthenticator, SaslError, SaslOptions, State
from broker.security.sasl_mechanisms import PlainServer
from protocol.api import ApiKey
from protocol.headers import RequestHeader
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest

USERS = {"alice": "secret"}
RIGHT, WRONG = b"\0alice\0secret", b"\0alice\0guess"


def test_session_that_expires_while_its_client_is_throttled_is_used_until_it_can_authenticate_again() -> None:
    connection = Connection(1, "SASL", "127.0.0.1")
    options = SaslOptions(lambda: ("PLAIN",), lambda _: PlainServer(USERS), lambda _: 1000)
    authenticator = connection.authenticator = SaslAuthenticator(connection, options)
    authenticator.handshake(1, SaslHandshakeRequest(mechanism="PLAIN"))
    authenticator.authenticate(SaslAuthenticateRequest(auth_bytes=RIGHT), now_s=0.0)
    assert [authenticator.has_expired(now_s) for now_s in (1.0, 1.0005)] == [False, True]
    connection.mute(until=5.0)
    assert [authenticator.has_expired(now_s) for now_s in (5.0, 6.0, 6.1)] == [False, False, True]
    connection.mute(until=31.0)
    assert [authenticator.has_expired(now_s) for now_s in (31.0, 31.1)] == [False, True]


def test_re_authentication_begins_at_most_once_a_second() -> None:
    options = SaslOptions(lambda: ("PLAIN",), lambda _: PlainServer(USERS), lambda _: 0)
    authenticator = SaslAuthenticator(Connection(1, "SASL", "127.0.0.1"), options)
    assert not authenticator.is_reauthenticating
    authenticator.reauthenticate(5.0)
    assert (authenticator.is_reauthenticating, authenticator.state) == (True, State.HANDSHAKE)
    assert [authenticator.may_reauthenticate(now_s) for now_s in (5.999, 6.0)] == [False, True]


class TwoSteps(PlainServer):
    """A mechanism that challenges before it authenticates."""

    hashing = staticmethod(int)  # type: ignore[assignment]

    def respond(self, token: bytes) -> bytes:
        return super().respond(token) if token != b"first" else b"challenge"


@pytest.mark.parametrize("version", [0, 1])
def test_client_is_authenticated_only_after_the_last_token(version: int) -> None:
    connection = Connection(1, "SASL", "127.0.0.1")
    options = SaslOptions(lambda: ("TWO",), lambda _: TwoSteps(USERS), lambda _: 1000)
    authenticator = SaslAuthenticator(connection, options)
    anonymous = connection.principal
    authenticator.handshake(version, SaslHandshakeRequest(mechanism="TWO"))
    hashes = [authenticator.hashing is not None]
    answer = authenticator.authenticate(SaslAuthenticateRequest(auth_bytes=b"first"), now_s=0.0)
    assert (answer.auth_bytes, answer.session_lifetime_ms) == (b"challenge", 0)
    assert (authenticator.state, connection.principal) == (State.AUTHENTICATE, anonymous)
    assert authenticator.takes_bare_tokens == (version == 0)
    assert authenticator.token(RIGHT, now_s=0.0) == b""
    assert (authenticator.state, connection.principal) == (State.COMPLETE, "User:alice")
    hashes.append(authenticator.hashing is not None)
    assert (authenticator.takes_bare_tokens, hashes) == (False, [True, False])


@pytest.mark.parametrize("token", [WRONG, b"damaged"])
def test_refused_bare_token_has_the_user_and_the_mechanism_for_the_log(token: bytes) -> None:
    options = SaslOptions(lambda: ("PLAIN",), lambda _: PlainServer(USERS), lambda _: 0)
    authenticator = SaslAuthenticator(Connection(1, "SASL", "127.0.0.1"), options)
    authenticator.handshake(0, SaslHandshakeRequest(mechanism="PLAIN"))
    with pytest.raises(SaslError) as refused:
        authenticator.token(token, now_s=0.0)
    assert (refused.value.user, refused.value.mechanism) == ("alice" if token == WRONG else "", "PLAIN")
    assert refused.value.response is None
    assert authenticator.state is State.AUTHENTICATE


def test_session_counts_as_one_of_a_token_as_the_last_authentication_says() -> None:
    connection = Connection(1, "SASL", "127.0.0.1")
    mechanisms = [PlainServer(USERS) for _ in range(3)]
    mechanisms[1].token_authenticated = True
    steps = iter(mechanisms)
    authenticator = SaslAuthenticator(connection, SaslOptions(lambda: ("PLAIN",), lambda _: next(steps), lambda _: 0))
    context = context_of(RequestHeader(ApiKey.METADATA, 12, 1, None), connection)
    found = [context.token_authenticated]
    for now_s in (0.0, 10.0, 20.0):
        if now_s:
            authenticator.reauthenticate(now_s)
        authenticator.handshake(1, SaslHandshakeRequest(mechanism="PLAIN"))
        authenticator.authenticate(SaslAuthenticateRequest(auth_bytes=RIGHT), now_s)
        found.append(context.token_authenticated)
    assert found == [False, False, True, False]
