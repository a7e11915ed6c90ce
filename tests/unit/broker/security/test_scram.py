"""SCRAM: the exchange of RFC 7677, and both sides with each other."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode

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


def final_message(server: ScramServer, first: str, binding: str = "biws", password: str = "pencil") -> bytes:
    """Return the final message of a client that knows a password, with any first message and channel binding."""
    challenge = server.respond(first.encode()).decode()
    nonce, salt, iterations = (part[2:] for part in challenge.split(","))
    bare, without_proof = first[first.index("n=") :], f"c={binding},r={nonce}"
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), b64decode(salt), int(iterations))
    key = SHA_256.hmac(salted, b"Client Key")
    signature = SHA_256.hmac(SHA_256.hash(key), f"{bare},{challenge},{without_proof}".encode())
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    return f"{without_proof},p={b64encode(proof).decode()}".encode()


def new_server(user: str = "user") -> ScramServer:
    return ScramServer(SHA_256, {user: credential(SHA_256, "pencil")}.get, "server", DECOYS.of)


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


def test_authorization_id_is_escaped_as_the_user_is() -> None:
    server = new_server("a,b=c")
    proof = final_message(server, "n,a=a=2Cb=3Dc,n=a=2Cb=3Dc,r=client", b64encode(b"n,a=a=2Cb=3Dc,").decode())
    server.respond(proof)
    assert server.user == "a,b=c"


@pytest.mark.parametrize(("binding", "header"), [("eSws", "n,,"), ("biws", "n,a=user,"), ("bixhPXVzZXIs", "n,,")])
def test_channel_binding_is_the_header_of_the_first_message_whatever_the_proof(binding: str, header: str) -> None:
    server = new_server()
    proof = final_message(server, f"{header}n=user,r=client", binding)
    with pytest.raises(MechanismError, match="Invalid channel binding"):
        server.respond(proof)
    assert server.user is None


def test_nothing_follows_the_proof() -> None:
    server = new_server()
    proof = final_message(server, "n,,n=user,r=client")
    with pytest.raises(MechanismError, match="Invalid SCRAM client final message format"):
        server.respond(proof + b",x=y")
    server.respond(proof)
    assert server.user == "user"


def test_decoy_authenticates_nobody_even_with_its_password() -> None:
    server = ScramServer(SHA_256, lambda _: None, "server", lambda _: credential(SHA_256, "pencil"))
    proof = final_message(server, "n,,n=user,r=client")
    with pytest.raises(MechanismError, match="Invalid client credentials"):
        server.respond(proof)
    assert server.user is None


def test_extension_for_delegation_tokens_authenticates_no_user_of_a_broker_without_them() -> None:
    server = new_server()
    proof = final_message(server, "n,,n=user,r=client,tokenauth=true")
    assert server.hashing is None
    with pytest.raises(MechanismError, match="Invalid client credentials"):
        server.respond(proof)
    assert server.user is None


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
        b"c=biws,r=clientserver,p=AAAAA",
        b"c=A,r=clientserver,p=AAAA",
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
    with pytest.raises(MechanismError, match=r"^Invalid client nonce in the final client message\.$"):
        server.respond(b"c=biws,r=other,p=AAAA")


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=client,s=c2FsdA==,i=4096",
        b"r=other,s=c2FsdA==,i=4096",
        b"r=clientserver,s=c2FsdA==,i=4095",
        b"r=clientserver,s=c2FsdA==,i=16385",
        b"e=other-error",
        b"r=clientserver,s=c2FsdA==,i=4096;",
        b"r=clientserver,s=A,i=4096",
        b"\xff",
    ],
)
def test_client_refuses_another_nonce_and_unsafe_iterations(challenge: bytes) -> None:
    with pytest.raises(MechanismError):
        ScramClient(SHA_256, "user", "pencil", "client").respond(challenge)


def test_client_refuses_a_server_that_does_not_know_the_credential() -> None:
    client = ScramClient(SHA_256, "user", "pencil", "client")
    client.respond(b"r=clientserver,s=c2FsdA==,i=4096")
    for final in (b"v=AAAA", b"e=invalid-proof", b"", b"\xff"):
        with pytest.raises(MechanismError, match="the server does not know the credential"):
            client.respond(final)


def test_client_takes_the_signature_of_the_server_only_without_more() -> None:
    server, client = new_server(), ScramClient(SHA_256, "user", "pencil", "client")
    proof = client.respond(server.respond(client.first()))
    assert proof is not None
    final = server.respond(proof)
    with pytest.raises(MechanismError):
        client.respond(final + b"!")
    assert client.respond(final) is None


@pytest.mark.parametrize(("iterations", "is_accepted"), [(4095, False), (4096, True), (16384, True), (16385, False)])
def test_client_bounds_the_iterations_that_a_server_requests(iterations: int, is_accepted: bool) -> None:
    client = ScramClient(SHA_256, "user", "pencil", "client")
    assert not is_accepted or client.hashes_next
    challenge = b"r=clientserver,s=c2FsdA==,i=%d" % iterations
    if is_accepted:
        client.respond(challenge)
        assert not client.hashes_next
        return
    with pytest.raises(MechanismError, match=f"requests {iterations} SCRAM iterations"):
        client.respond(challenge)
