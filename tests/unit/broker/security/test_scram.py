"""SCRAM: the exchange of RFC 7677, and both sides with each other."""

from __future__ import annotations

import hashlib
from base64 import b64decode

import pytest

from broker.security.sasl_mechanisms import AuthenticationError, MechanismError
from broker.security.scram import ScramClient, ScramServer
from broker.security.scram_decoys import ScramDecoys
from controller.scram import SCRAM_MECHANISMS, ScramCredential, ScramMechanism, credential_from

SHA_256 = SCRAM_MECHANISMS[0]
DECOYS = ScramDecoys(SHA_256, {}, b"secret")


def credential(
    mechanism: ScramMechanism, password: str, salt: bytes = b"salt", iterations: int = 4096
) -> ScramCredential:
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)
    return credential_from(mechanism, salt, salted, iterations)


def test_exchange_is_that_of_rfc_7677() -> None:
    stored = credential(SHA_256, "pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    server = ScramServer(SHA_256, {"user": stored}.get, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", DECOYS.of)
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = server.respond(client.first())
    assert challenge == (b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    proof = client.respond(challenge)
    assert proof == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    final = server.respond(proof)
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert client.respond(final) is None
    assert server.user == "user"


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_any_user_name_and_password_authenticates(mechanism: ScramMechanism) -> None:
    user = "a,b=c=2Cé"
    server = ScramServer(mechanism, {user: credential(mechanism, "pä,ss")}.get, "server", DECOYS.of)
    client = ScramClient(mechanism, user, "pä,ss", "client")
    proof = client.respond(server.respond(client.first()))
    assert proof is not None
    assert client.respond(server.respond(proof)) is None
    assert server.user == user


@pytest.mark.parametrize(("user", "password"), [("user", "wrong"), ("nobody", "pencil")])
def test_wrong_password_and_unknown_user_fail_in_the_same_step(user: str, password: str) -> None:
    server = ScramServer(SHA_256, {"user": credential(SHA_256, "pencil")}.get, "server", DECOYS.of)
    client = ScramClient(SHA_256, user, password, "client")
    proof = client.respond(server.respond(client.first()))
    assert proof is not None
    with pytest.raises(MechanismError, match="Invalid client credentials"):
        server.respond(proof)
    assert server.user is None


def test_authorization_id_must_be_the_user() -> None:
    server = ScramServer(SHA_256, {"user": credential(SHA_256, "pencil")}.get, "server", DECOYS.of)
    with pytest.raises(AuthenticationError, match="different from username"):
        server.respond(b"n,a=admin,n=user,r=client")


@pytest.mark.parametrize(
    "first", [b"", b"y,,n=user,r=x", b"n,,n=user", b"n,,n=us\0er,r=x", b"n,,n=u=ser,r=x", b"\xff", b"n,,n=user,r=x,zz"]
)
def test_damaged_first_message_is_refused(first: bytes) -> None:
    with pytest.raises(MechanismError):
        ScramServer(SHA_256, lambda _: None, "server", DECOYS.of).respond(first)


@pytest.mark.parametrize(
    "final",
    [
        b"",
        b"c=biws,r=clientserver,p=!",
        b"c=biws,r=client,p=AAAA",
        b"c=eSws,r=clientserver,p=AAAA",
        b"c=biws,r=clientserver,p=AAAA",
        b"\xff",
    ],
)
def test_damaged_final_message_is_refused(final: bytes) -> None:
    server = ScramServer(SHA_256, {"user": credential(SHA_256, "pencil")}.get, "server", DECOYS.of)
    server.respond(b"n,,n=user,r=client")
    with pytest.raises(MechanismError) as refused:
        server.respond(final)
    assert refused.value.user == "user"  # that of the first message, for the log


def test_nonce_of_older_librdkafka_is_refused_with_the_version_to_update_to() -> None:
    server = ScramServer(SHA_256, {"user": credential(SHA_256, "pencil")}.get, "server", DECOYS.of)
    server.respond(b"n,,n=user,r=client")
    with pytest.raises(MechanismError, match=r"Invalid client nonce .* librdkafka before 2\.6\.1"):
        server.respond(b"c=biws,r=clientclientserver,p=AAAA")


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=client,s=c2FsdA==,i=4096",
        b"r=other,s=c2FsdA==,i=4096",
        b"r=clientserver,s=c2FsdA==,i=4095",
        b"r=clientserver,s=c2FsdA==,i=16385",
        b"e=other-error",
    ],
)
def test_client_refuses_another_nonce_and_unsafe_iterations(challenge: bytes) -> None:
    with pytest.raises(MechanismError):
        ScramClient(SHA_256, "user", "pencil", "client").respond(challenge)


def test_client_refuses_a_server_that_does_not_know_the_credential() -> None:
    client = ScramClient(SHA_256, "user", "pencil", "client")
    client.respond(b"r=clientserver,s=c2FsdA==,i=4096")
    with pytest.raises(MechanismError, match="the server does not know the credential"):
        client.respond(b"v=AAAA")
