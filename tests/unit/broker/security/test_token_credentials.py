"""Authentication by delegation tokens: SCRAM with the extension tokenauth=true."""

from __future__ import annotations

import hashlib
from base64 import b64encode

import pytest

from broker.security.sasl_mechanisms import AuthenticationError, MechanismError
from broker.security.scram import ScramClient, ScramServer
from broker.security.scram_decoys import ScramDecoys
from broker.security.token_credentials import TokenCredentials
from controller.delegation_tokens import DelegationToken, TokenHmacs
from controller.scram import SCRAM_MECHANISMS, ScramMechanism, credential_from
from tests.typed import present

SHA_256 = SCRAM_MECHANISMS[0]
HMACS = TokenHmacs("secret")
PASSWORD = b64encode(HMACS.of("id")).decode()
TOKEN = DelegationToken("id", "User:alice", "User:proxy", (), 1_000, 9_000, 5_000)


class TokenClient(ScramClient):
    """A client with a token, or with the id and a guess of the HMAC."""

    extension = ",tokenauth=true"

    def __init__(self, mechanism: ScramMechanism, token_id: str, password: str) -> None:
        super().__init__(mechanism, token_id, password, "client")
        self._bare += self.extension.encode()


class Broker:
    """The credentials of a broker at `now_ms`."""

    def __init__(self, *tokens: DelegationToken, key: str = "secret") -> None:
        self.now_ms = 2_000
        self.tokens = {token.token_id: token for token in tokens}
        self.credentials = TokenCredentials(TokenHmacs(key), lambda: self.tokens, lambda: self.now_ms)

    def server(self, mechanism: ScramMechanism = SHA_256) -> ScramServer:
        decoys = ScramDecoys(mechanism, {}, b"spare")
        return ScramServer(mechanism, lambda _: None, "server", decoys.of, self.credentials)


def exchange(server: ScramServer, client: ScramClient) -> None:
    proof = client.respond(server.respond(client.first()))
    assert proof is not None
    assert client.respond(server.respond(proof)) is None


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_the_bearer_of_a_token_is_its_owner_until_it_expires(mechanism: ScramMechanism) -> None:
    server = Broker(TOKEN).server(mechanism)
    exchange(server, TokenClient(mechanism, "id", PASSWORD))
    assert (server.user, server.token_authenticated, server.credential_lifetime_ms) == ("alice", True, 3_000)


@pytest.mark.parametrize(
    ("token_id", "password", "key"), [("id", "guess", "secret"), ("other", PASSWORD, "secret"), ("id", PASSWORD, "k2")]
)
def test_a_wrong_hmac_an_unknown_id_and_another_key_fail_in_the_same_step(
    token_id: str, password: str, key: str
) -> None:
    server, client = Broker(TOKEN, key=key).server(), TokenClient(SHA_256, token_id, password)
    proof = client.respond(server.respond(client.first()))
    assert proof is not None
    with pytest.raises(MechanismError, match="Invalid client credentials"):
        server.respond(proof)
    assert server.user is None


def test_an_expired_token_is_refused() -> None:
    broker = Broker(TOKEN)
    broker.now_ms = 5_000
    exchange(broker.server(), TokenClient(SHA_256, "id", PASSWORD))
    broker.now_ms = 5_001
    with pytest.raises(MechanismError, match="has expired"):
        exchange(broker.server(), TokenClient(SHA_256, "id", PASSWORD))


@pytest.mark.parametrize(
    ("now_ms", "token", "why"),
    [(5_001, TOKEN, "has expired"), (2_000, None, "Invalid client credentials")],
    ids=["expired", "removed"],
)
def test_a_token_is_refused_that_ends_between_the_challenge_and_the_proof(
    now_ms: int, token: DelegationToken | None, why: str
) -> None:
    broker = Broker(TOKEN)
    server, client = broker.server(), TokenClient(SHA_256, "id", PASSWORD)
    proof = client.respond(server.respond(client.first()))
    assert proof is not None
    broker.now_ms, broker.tokens = now_ms, {} if token is None else {"id": token}
    with pytest.raises(MechanismError, match=why):
        server.respond(proof)
    assert server.user is None


def test_the_lifetime_of_a_session_counts_from_the_proof() -> None:
    broker = Broker(TOKEN)
    server, client = broker.server(), TokenClient(SHA_256, "id", PASSWORD)
    proof = client.respond(server.respond(client.first()))
    assert proof is not None
    broker.now_ms = 4_000
    server.respond(proof)
    assert server.credential_lifetime_ms == 1_000


def test_a_renewed_token_has_its_new_lifetime_and_a_removed_one_is_unknown() -> None:
    broker = Broker(TOKEN)
    exchange(broker.server(), TokenClient(SHA_256, "id", PASSWORD))
    broker.tokens = {"id": TOKEN._replace(expiry_ms=8_000)}
    server = broker.server()
    exchange(server, TokenClient(SHA_256, "id", PASSWORD))
    assert server.credential_lifetime_ms == 6_000
    broker.tokens = {}
    with pytest.raises(MechanismError, match="Invalid client credentials"):
        exchange(broker.server(), TokenClient(SHA_256, "id", PASSWORD))


def test_a_token_is_no_user_without_the_extension() -> None:
    with pytest.raises(MechanismError, match="Invalid client credentials"):
        exchange(Broker(TOKEN).server(), ScramClient(SHA_256, "id", PASSWORD, "client"))


def test_a_token_is_no_user_without_the_extension_even_with_the_salt_of_the_token() -> None:
    """The session would not count as one of a token, and could create others."""
    broker, salt = Broker(TOKEN), TokenCredentials(HMACS, dict, lambda: 0).decoy_of(SHA_256, "id")
    server = ScramServer(SHA_256, lambda _: None, "server", lambda _: salt, broker.credentials)
    client = ScramClient(SHA_256, "id", PASSWORD, "client")
    proof = client.respond(server.respond(client.first()))
    assert server.hashing is None
    with pytest.raises(MechanismError, match="Invalid client credentials"):
        server.respond(present(proof))
    assert server.user is None


def test_a_user_is_no_token_with_the_extension() -> None:
    salt = TokenCredentials(HMACS, dict, lambda: 0).decoy_of(SHA_256, "id").salt
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    stored = credential_from(SHA_256, salt, salted, 4096)
    server = ScramServer(SHA_256, {"id": stored}.get, "server", lambda _: stored, Broker().credentials)
    with pytest.raises(MechanismError, match="Invalid client credentials"):
        exchange(server, TokenClient(SHA_256, "id", "pencil"))
    assert server.user is None


def test_users_are_challenged_by_their_own_decoys_where_there_are_tokens() -> None:
    decoys = ScramDecoys(SHA_256, {}, b"spare")
    challenge = Broker(TOKEN).server().respond(b"n,,n=nobody,r=client").decode()
    assert f"s={b64encode(decoys.of('nobody').salt).decode()}," in challenge


def test_the_extension_may_have_capitals_as_a_boolean_of_java() -> None:
    client = TokenClient(SHA_256, "id", PASSWORD)
    client._bare = client._bare.replace(b"=true", b"=TRUE")
    server = Broker(TOKEN).server()
    exchange(server, client)
    assert server.token_authenticated


@pytest.mark.parametrize("extension", [",tokenauth=false", ",other=true", ",tokenauth=truely"])
def test_other_extensions_are_ignored(extension: str) -> None:
    client = TokenClient(SHA_256, "id", PASSWORD)
    client._bare = client._bare.replace(b",tokenauth=true", extension.encode())
    with pytest.raises(MechanismError, match="Invalid client credentials"):
        exchange(Broker(TOKEN).server(), client)


def test_a_token_of_another_type_of_principal_authenticates_nobody() -> None:
    with pytest.raises(MechanismError, match="Invalid client credentials"):
        exchange(Broker(TOKEN._replace(owner="Group:alice")).server(), TokenClient(SHA_256, "id", PASSWORD))


def test_authorization_id_must_be_the_id_of_the_token() -> None:
    with pytest.raises(AuthenticationError, match="different from username"):
        Broker(TOKEN).server().respond(b"n,a=alice,n=id,r=client,tokenauth=true")


def test_challenges_do_not_tell_which_tokens_exist() -> None:
    known, unknown = Broker(TOKEN), Broker()
    first = TokenClient(SHA_256, "id", PASSWORD).first()
    challenge = known.server().respond(first)
    assert challenge == unknown.server().respond(first), "the salt of an id is the same with and without a token"
    other = known.server().respond(TokenClient(SHA_256, "other", PASSWORD).first())
    assert len(other) == len(challenge)
    assert other != challenge


def test_the_credential_of_a_token_is_made_once_with_a_salt_that_all_brokers_derive() -> None:
    one, other = Broker(TOKEN).credentials, Broker(TOKEN).credentials
    made = present(one.of(SHA_256, "id")).credential
    assert present(one.of(SHA_256, "id")).credential is made
    assert present(other.of(SHA_256, "id")).credential == made
    assert (len(made.salt), made.iterations) == (24, 4096)


def test_made_credentials_of_removed_tokens_are_dropped() -> None:
    broker = Broker()
    for number in range(40):
        broker.tokens = {str(number): TOKEN._replace(token_id=str(number))}
        present(broker.credentials.hashing(SHA_256, str(number)))()
        assert broker.credentials.of(SHA_256, str(number)) is not None
    assert len(broker.credentials._made) < 10


def test_only_the_first_proof_needs_the_hash_of_a_token_and_no_challenge_does() -> None:
    broker = Broker(TOKEN)
    for is_first in (True, False):
        server, client = broker.server(), TokenClient(SHA_256, "id", PASSWORD)
        needed = [server.hashing]
        proof = client.respond(server.respond(client.first()))
        needed.append(server.hashing)
        assert [hashing is not None for hashing in needed] == [False, is_first]
        if needed[1] is not None:
            needed[1]()
        assert server.hashing is None
        assert server.respond(present(proof))
    other = broker.server()
    other.respond(TokenClient(SHA_256, "other", PASSWORD).first())
    assert other.hashing is None, "an id without a token costs no hash"
