"""Attacks on secured listeners by many connections at a time.

They stop before, in and after the TLS handshake and in each step of SASL, send a byte at a time, or guess passwords.
Meanwhile a client that authenticates is served within `SERVED_S`, a member of a group stays in it, and the broker's
memory stays within a bound for each connection; after their end clients are served as before, and the memory is used
again.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest

from broker.network.connection_limits import MAX_UNAUTHENTICATED_BYTES
from broker.security.scram import ScramClient
from controller.scram import SCRAM_BY_NAME
from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests import proofs
from tests.clients.drills import (
    LISTENERS,
    SCRAM,
    SPARE_BYTES,
    TIMEOUT_S,
    Attacked,
    Member,
    call,
    framed,
    resident_bytes,
)

CONNECTIONS = int(os.environ.get("BARNABAS_TEST_UNFINISHED_HANDSHAKES", "150"))
SLOW_BYTES = 5
"""How many bytes each slow connection sends."""
MOST_REPEATED = 3000
TOKEN_BYTES = 524_000
"""Almost the default of `sasl.server.max.receive.size`."""
MOST_TOKENS = 500
"""Each token also takes memory of the system, which buffers what the broker does not read."""
CHUNK_BYTES = 64 * 1024
SERVED_EVERY = 250
"""After how many attacking connections another client is served."""


def sasl_token(response: bytes) -> bytes:
    """Return the token in a response of SaslAuthenticate 1."""
    answer = SaslAuthenticateResponse.decode(memoryview(bytearray(response)), 1, 4)
    assert answer.error_code == ErrorCode.NONE, answer
    return bytes(answer.auth_bytes)


def await_close(client: socket.socket) -> None:
    """Wait until the broker has closed a connection; TimeoutError if it does not."""
    with suppress(ConnectionResetError):
        while client.recv(4096):
            pass


def silent(attacked: Attacked, listener: str) -> socket.socket:
    return attacked.connect(listener)


def half_a_client_hello(attacked: Attacked, listener: str) -> socket.socket:
    client = attacked.connect(listener)
    client.sendall(attacked.client_hello()[:100])
    return client


def after_the_client_hello(attacked: Attacked, listener: str) -> socket.socket:
    client = attacked.connect(listener)
    client.sendall(attacked.client_hello())
    client.recv(100)  # part of the server's flight; the rest stays in the socket
    return client


def plain_text_on_the_tls_port(attacked: Attacked, listener: str) -> socket.socket:
    client = attacked.connect(listener)
    client.sendall(framed(None, 0))
    return client


def tls_on_the_plain_port(attacked: Attacked, listener: str) -> socket.socket:
    client = attacked.connect(listener)
    client.sendall(attacked.client_hello())
    return client


def after_the_tls_handshake(attacked: Attacked, listener: str) -> socket.socket:
    return attacked.open(listener)


def after_api_versions(attacked: Attacked, listener: str) -> socket.socket:
    client = attacked.open(listener)
    call(client, None, 0)
    return client


def in_the_sasl_handshake(attacked: Attacked, listener: str) -> socket.socket:
    client = attacked.open(listener)
    client.sendall(framed(SaslHandshakeRequest(mechanism="PLAIN"), 1)[:10])
    return client


def after_the_sasl_handshake(attacked: Attacked, listener: str) -> socket.socket:
    client = attacked.open(listener)
    call(client, SaslHandshakeRequest(mechanism="PLAIN"), 1)
    return client


def in_the_last_byte_of_a_large_token(attacked: Attacked, listener: str) -> socket.socket:
    """Send as much as the broker reads, and the system buffers, of all but the last byte."""
    client = after_the_sasl_handshake(attacked, listener)
    client.settimeout(0)
    unsent = memoryview(framed(SaslAuthenticateRequest(auth_bytes=b"x" * TOKEN_BYTES), 2))[:-1]
    with suppress(BlockingIOError, ssl.SSLWantWriteError):
        while unsent:
            unsent = unsent[client.send(unsent[:CHUNK_BYTES]) :]
    client.settimeout(TIMEOUT_S)
    return client


Stop = Callable[[Attacked, str], socket.socket]
OF_TLS: list[Stop] = [half_a_client_hello, after_the_client_hello, plain_text_on_the_tls_port, after_the_tls_handshake]
REFUSED: list[Stop] = [plain_text_on_the_tls_port, tls_on_the_plain_port]
"""Their connections are closed by the broker, not by the attacker."""
OF_SASL: list[Stop] = [
    silent,
    after_api_versions,
    in_the_sasl_handshake,
    after_the_sasl_handshake,
    in_the_last_byte_of_a_large_token,
]


@pytest.mark.parametrize(
    ("listener", "stop"),
    [
        *(("SASL_SSL", stop) for stop in (*OF_TLS, *OF_SASL)),
        *(("SASL_PLAINTEXT", stop) for stop in (tls_on_the_plain_port, *OF_SASL)),
    ],
)
def test_unfinished_connections_take_bounded_memory_and_do_not_keep_other_clients_waiting(
    attacked: Attacked, member: Member, listener: str, stop: Stop
) -> None:
    count, spare = attacked.connections, SPARE_BYTES
    if stop is in_the_last_byte_of_a_large_token:
        count, spare = min(count, MOST_TOKENS), spare + MAX_UNAUTHENTICATED_BYTES
    with attacked.drill(stop.__name__.replace("_", " "), listener, member, count=count, spare=spare) as attack:
        clients = []
        for number in range(count):
            clients.append(attack.held.enter_context(stop(attacked, listener)))
            if number % SERVED_EVERY == 0:
                attack.serve_another()
        if stop in REFUSED:
            for client in clients:
                await_close(client)
    proofs.count("connections that stopped in a handshake", count)


@pytest.mark.parametrize("listener", LISTENERS)
def test_connections_that_send_a_byte_at_a_time_take_bounded_memory_and_do_not_keep_others_waiting(
    attacked: Attacked, member: Member, listener: str
) -> None:
    slow = attacked.client_hello() if listener == "SASL_SSL" else framed(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    with attacked.drill("a byte at a time", listener, member) as attack:
        clients = [attack.held.enter_context(attacked.connect(listener)) for _ in range(attacked.connections)]
        for at in range(SLOW_BYTES):
            for client in clients:
                with suppress(ConnectionError):  # closed, as its handshake took too long
                    client.send(slow[at : at + 1])
            attack.serve_another()
    proofs.count("connections that sent a byte at a time", attacked.connections)


@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_guesses_of_a_password_do_not_keep_other_clients_waiting(attacked: Attacked, member: Member, user: str) -> None:
    def guess(held: ExitStack) -> socket.socket:
        """Return a connection after a proof of a wrong password, without awaiting the answer, which is delayed."""
        client = held.enter_context(attacked.open("SASL_PLAINTEXT"))
        scram = ScramClient(SCRAM_BY_NAME[SCRAM], user, "", "nonce")
        call(client, SaslHandshakeRequest(mechanism=SCRAM), 1)
        challenge = sasl_token(call(client, SaslAuthenticateRequest(auth_bytes=scram.first()), 1))
        nonce = challenge.split(b",")[0].decode()
        proof = f"c=biws,{nonce},p={'A' * 86}==".encode()
        client.sendall(framed(SaslAuthenticateRequest(auth_bytes=proof), 1))
        return client

    with attacked.drill(f"guesses of {user}'s password", "SASL_PLAINTEXT", member) as attack:
        clients = []
        for number in range(attacked.connections):
            clients.append(guess(attack.held))
            if number % SERVED_EVERY == 0:
                attack.serve_another()
        for client in clients:
            await_close(client)
    proofs.count("guesses of a password", attacked.connections)


def test_memory_of_ended_connections_is_used_again(attacked: Attacked) -> None:
    count = min(attacked.connections, MOST_REPEATED)

    def attack() -> int:
        with ExitStack() as held:
            for _ in range(count):
                held.enter_context(after_the_sasl_handshake(attacked, "SASL_SSL"))
            return resident_bytes(attacked.process.pid)

    first = [attack() for _ in range(2)][-1]
    again = [attack() for _ in range(3)][-1]
    assert again - first < SPARE_BYTES
    proofs.note(
        f"SASL_SSL: five times {count:,} connections: {(again - first) / 1024:,.0f} KB more after the last three"
    )
