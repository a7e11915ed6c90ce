from __future__ import annotations

import hashlib
import re

import pytest

from broker.security.sasl_mechanisms import MechanismError
from broker.security.scram import ScramServer
from broker.security.scram_decoys import ScramDecoys
from controller.scram import DECOY_KEY, SCRAM_MECHANISMS, ScramCredential, credential_from

SHA_256, SHA_512 = SCRAM_MECHANISMS
KAFKA_SALT = b"1k3l0v4mq9z2x8c7b6n5a4s3df"  # 26 digits in base 36, below 2 ** 130
BYTES_SALT = bytes(range(200, 224))
USERS = [f"nobody-{number}" for number in range(50)]


def stored(password: bytes = b"secret", salt: bytes = BYTES_SALT, iterations: int = 4096) -> ScramCredential:
    return credential_from(SHA_256, salt, hashlib.sha256(password).digest(), iterations)


def decoys(credentials: dict[str, ScramCredential], spare: bytes = b"spare") -> ScramDecoys:
    by_mechanism = {(name, SHA_256.number): credential for name, credential in credentials.items()}
    return ScramDecoys(SHA_256, by_mechanism, spare)


def salts(found: ScramDecoys) -> list[bytes]:
    return [found.of(user).salt for user in USERS]


@pytest.mark.parametrize(
    ("salt", "form"),
    [
        (KAFKA_SALT, rb"[0-9a-z]{20,26}"),
        (BYTES_SALT, rb"(?s:.{24})"),
        (b"a-long-salt" * 5, rb"(?s:.{55})"),
        (KAFKA_SALT * 2, rb"(?s:.{52})"),
    ],
)
def test_challenge_of_an_unknown_user_has_the_form_of_a_real_one(salt: bytes, form: bytes) -> None:
    users = {"alice": stored(salt=salt, iterations=8192)}
    found = decoys(users)
    for user in ("alice", *USERS):
        server = ScramServer(SHA_256, users.get, "server", found.of)
        challenge = re.fullmatch(rb"r=clientserver,s=[^,]+,i=8192", server.respond(f"n,,n={user},r=client".encode()))
        assert challenge, user
    assert all(re.fullmatch(form, one) for one in salts(found))
    if salt == KAFKA_SALT:
        assert {len(one) for one in salts(found)} >= {25, 26}
        assert max(int(one, 36) for one in salts(found)) < 2**130
    else:
        assert any(not one.isascii() for one in salts(found))


def test_each_form_and_number_of_iterations_of_stored_credentials_is_that_of_some_decoys() -> None:
    found = decoys({"a": stored(), "b": stored(iterations=8192), "c": stored(salt=KAFKA_SALT)})
    forms = {(found.of(user).salt.isalnum(), found.of(user).iterations) for user in USERS}
    assert forms == {(False, 4096), (False, 8192), (True, 4096)}


def test_decoys_without_a_secret_are_the_same_on_all_brokers_while_other_users_than_the_first_come_and_go() -> None:
    before = salts(decoys({"alice": stored()}, b"of one process"))
    assert len(set(before)) == len(USERS)
    assert salts(decoys({"alice": stored()}, b"of another process")) == before
    assert salts(decoys({"alice": stored(), "bob": stored(b"other")}, b"")) == before


def test_decoys_stay_while_the_first_user_is_altered_and_removed() -> None:
    secret = ScramCredential(b"decoys", bytes(32), b"a secret of the cluster", 4096)
    before = salts(ScramDecoys(SHA_256, {DECOY_KEY: secret, ("bob", 1): stored()}, b"spare"))
    for users in ({"bob": stored(b"new")}, {"alice": stored(b"new"), "bob": stored()}, {"carol": stored()}):
        credentials = {(name, SHA_256.number): credential for name, credential in users.items()}
        assert salts(ScramDecoys(SHA_256, {DECOY_KEY: secret, **credentials}, b"another")) == before
    other = secret._replace(server_key=b"another")
    assert not set(salts(ScramDecoys(SHA_256, {DECOY_KEY: other, ("bob", 1): stored()}, b"spare"))) & set(before)


def test_secret_of_decoys_is_no_form_of_a_credential() -> None:
    secret = ScramCredential(b"decoys", bytes(32), b"a secret of the cluster", 16384)
    found = ScramDecoys(SHA_256, {DECOY_KEY: secret, ("bob", 1): stored()}, b"spare")
    assert {(len(found.of(user).salt), found.of(user).iterations) for user in USERS} == {(24, 4096)}


def test_no_client_can_name_the_secret_of_decoys() -> None:
    secret = ScramCredential(b"decoys", bytes(32), b"a secret of the cluster", 4096)
    server = ScramServer(SHA_256, {"": secret}.get, "server", decoys({}).of)
    with pytest.raises(MechanismError, match="client first message format"):
        server.respond(b"n,,n=,r=client")


def test_decoys_without_a_secret_depend_on_the_first_user_or_else_on_the_process() -> None:
    assert not set(salts(decoys({"alice": stored()}))) & set(salts(decoys({"alice": stored(b"another password")})))
    assert not set(salts(decoys({}, b"one"))) & set(salts(decoys({}, b"another")))


def test_decoy_of_a_mechanism_has_keys_of_its_size() -> None:
    found = ScramDecoys(SHA_512, {}, b"spare").of("nobody")
    assert (len(found.stored_key), len(found.server_key), found.iterations) == (64, 64, 4096)
