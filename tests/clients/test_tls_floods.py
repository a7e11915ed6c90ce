"""Floods of what a TLS connection can be asked for after its handshake: renegotiations and KeyUpdates.

Renegotiation is refused, and ends the connection as in Apache Kafka. Other clients are served meanwhile, a member of a
group stays in it, and the broker's memory is bounded although the attacker reads nothing.
"""

from __future__ import annotations

import os
import ssl
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests import proofs
from tests.clients.drills import Attacked, Member, framed
from tests.clients.tls_records import TlsConnection

CONNECTIONS = int(os.environ.get("BARNABAS_TEST_FLOODING_CONNECTIONS", "10"))
EACH = 2_000
UNREAD_RENEGOTIATIONS = 400_000
"""Their alerts are 12 MB, more than the buffers of the socket, and more than the bound."""
BATCH = 2_000
UNREAD_BYTES = 4 << 20
SERVED_EVERY = 5


def connect(attacked: Attacked, version: ssl.TLSVersion, tmp_path: Path) -> TlsConnection:
    return TlsConnection(attacked.connect("SASL_SSL"), attacked.trusted, version, tmp_path / "keys")


def test_renegotiation_is_refused_and_ends_the_connection(attacked: Attacked, member: Member, tmp_path: Path) -> None:
    with attacked.drill("requests for a renegotiation", "SASL_SSL", member) as attack:
        for number in range(attacked.connections):
            client = connect(attacked, ssl.TLSVersion.TLSv1_2, tmp_path)
            attack.held.callback(client.close)
            client.socket.sendall(client.renegotiations(1))
            with pytest.raises(ssl.SSLError, match="NO_RENEGOTIATION"):
                client.read()
            assert client.socket.recv(1) == b""
            if number % SERVED_EVERY == 0:
                attack.serve_another()
    proofs.count("refused renegotiations", attacked.connections)


def test_unread_refusals_of_renegotiations_take_bounded_memory(
    attacked: Attacked, member: Member, tmp_path: Path
) -> None:
    what = "requests for renegotiations without reading"
    with attacked.drill(what, "SASL_SSL", member, count=1, bytes_each=0, spare=UNREAD_BYTES) as attack:
        client = connect(attacked, ssl.TLSVersion.TLSv1_2, tmp_path)
        attack.held.callback(client.close)
        with suppress(ConnectionError):
            for _ in range(UNREAD_RENEGOTIATIONS // BATCH):
                client.socket.sendall(client.renegotiations(BATCH))
                attack.serve_another()


@pytest.mark.parametrize("requested", [False, True], ids=["told", "requested"])
def test_key_updates_do_not_keep_others_waiting_and_the_connection_goes_on(
    attacked: Attacked, member: Member, tmp_path: Path, requested: bool
) -> None:
    what = f"{EACH:,} KeyUpdates each{', which request one of the broker' if requested else ''}"
    with attacked.drill(what, "SASL_SSL", member) as attack:
        for number in range(attacked.connections):
            client = connect(attacked, ssl.TLSVersion.TLSv1_3, tmp_path)
            attack.held.callback(client.close)
            client.socket.sendall(client.key_updates(EACH, requested=requested) + client.data(framed(None, 0)))
            assert len(client.read()) > len(framed(None, 0))
            if number % SERVED_EVERY == 0:
                attack.serve_another()
    proofs.count("KeyUpdates", EACH * attacked.connections)


def test_requested_key_updates_are_no_renegotiation(attacked: Attacked, tmp_path: Path) -> None:
    """OpenSSL answers the second request of a KeyUpdate at once, not with the next response."""
    with closing(connect(attacked, ssl.TLSVersion.TLSv1_3, tmp_path)) as client:
        client.socket.sendall(client.key_updates(3, requested=True))
        attacked.serve_one("SASL_SSL")  # the broker has read them
        client.socket.sendall(client.data(framed(None, 0)))
        assert client.read()
