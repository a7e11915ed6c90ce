"""PEM text of settings; `test_refusals` has connections with it, `test_command_config` what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.commands._inline_pem import CHAIN, KEY, NO_PEM, TRUSTED, readable, take_inline_pem
from tests.certificates import encrypted_pem, plain_pem

TYPES = {"ssl.truststore.type": "PEM", "ssl.keystore.type": "pem"}


def test_file_without_pem_text_has_none() -> None:
    values = {"client.id": "me", "ssl.truststore.location": "/a.pem"}
    assert take_inline_pem("f", values)[1:] == NO_PEM[1:]
    assert values == {"client.id": "me", "ssl.truststore.location": "/a.pem"}


@pytest.mark.parametrize("between", ["\n", " ", "", "\r\n"])
def test_pem_text_is_taken_from_the_settings_and_has_lines(between: str) -> None:
    key, chain = plain_pem()
    _, other = plain_pem()
    joined = {
        KEY: between.join(key.splitlines()),
        CHAIN: between.join(chain.splitlines()),
        TRUSTED: between.join((chain + other).splitlines()),
    }
    values = {**TYPES, **joined}
    assert take_inline_pem("f", values) == ("f", chain + other, chain, key)
    assert values == TYPES


def test_encrypted_key_is_taken() -> None:
    text = encrypted_pem("secret")
    found = take_inline_pem("f", {**TYPES, KEY: text, CHAIN: text})
    assert str(found.key) + str(found.chain) == text


def test_headers_of_an_encrypted_key_stay_in_their_lines() -> None:
    _, chain = plain_pem()
    key = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\nBBBB\n-----END EC PRIVATE KEY-----\n"
    assert take_inline_pem("f", {**TYPES, KEY: key, CHAIN: chain}).key == key


def test_key_store_fits_into_a_pipe_and_trusted_certificates_may_be_many() -> None:
    key, chain = plain_pem()
    many = chain * (70_000 // len(chain) + 1)
    assert take_inline_pem("f", {**TYPES, TRUSTED: many}).trusted == many
    with pytest.raises(ValueError, match=rf"^{CHAIN}: at most 65536 characters are supported; write it to a file$"):
        take_inline_pem("f", {**TYPES, KEY: key, CHAIN: many})


def test_text_is_read_from_a_path() -> None:
    with readable("x" * 65_536) as path:
        assert Path(path).read_text() == "x" * 65_536
