"""PEM text of settings; `test_refusals` has connections with it, `test_command_config` what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.commands._inline_pem import CHAIN, KEY, NO_PEM, TRUSTED, readable, take_inline_pem
from broker.security.key_stores import key_store, trusted_certificates
from broker.security.security_error import SecurityError
from controller.configs import BROKER_CONFIGS
from storage.disk import UnsyncedDisk
from tests.certificates import encrypted_pem, plain_pem
from tests.typed import present

Read = Callable[[dict[str, str]], tuple[str, str, str]]
"""Returns the key, its chain and the trusted certificates of settings."""

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


def pem(label: str, content: str) -> str:
    return f"-----BEGIN {label}-----\n{content}\n-----END {label}-----\n"


def by_commands(settings: dict[str, str]) -> tuple[str, str, str]:
    found = take_inline_pem("f", settings)
    return present(found.key), present(found.chain), present(found.trusted)


def by_brokers(settings: dict[str, str]) -> tuple[str, str, str]:
    def value(name: str) -> object:
        return settings.get(name, BROKER_CONFIGS[name].default)

    store = present(key_store(value, UnsyncedDisk()))
    return store.key.decode(), store.chain.decode(), present(trusted_certificates(value, UnsyncedDisk()))


WIDE = "A" * 64 + "\n" + "B" * 64 + "\nCC=="
CERTIFICATE, PLAIN_KEY = pem("CERTIFICATE", "AAAA"), pem("PRIVATE KEY", WIDE)
HEADERS = pem("EC PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\nBBBB")


@pytest.mark.parametrize("read", [by_commands, by_brokers])
@pytest.mark.parametrize(
    ("key", "chain", "expected"),
    [
        (PLAIN_KEY, CERTIFICATE, (PLAIN_KEY, CERTIFICATE)),
        (PLAIN_KEY.replace("\n", "\r\n"), CERTIFICATE.replace("\n", " "), (PLAIN_KEY, CERTIFICATE)),
        (PLAIN_KEY.replace("\n", ""), CERTIFICATE.replace("\n", ""), (PLAIN_KEY, CERTIFICATE)),
        (pem("PRIVATE KEY", WIDE.replace("B", "B\n ")), CERTIFICATE, (PLAIN_KEY, CERTIFICATE)),
        (HEADERS, CERTIFICATE, (HEADERS, CERTIFICATE)),
        (pem("ENCRYPTED PRIVATE KEY", "AAAA"), CERTIFICATE, (pem("ENCRYPTED PRIVATE KEY", "AAAA"), CERTIFICATE)),
        (HEADERS + PLAIN_KEY, CERTIFICATE, (HEADERS, CERTIFICATE)),
        (PLAIN_KEY + CERTIFICATE, f"a für {CERTIFICATE} and {PLAIN_KEY} {CERTIFICATE}", (PLAIN_KEY, CERTIFICATE * 2)),
        (PLAIN_KEY.replace("END PRIVATE", "END EC PRIVATE"), CERTIFICATE, None),
        (PLAIN_KEY.lower(), CERTIFICATE, None),
        (pem("PUBLIC KEY", "AAAA"), CERTIFICATE, None),
        (PLAIN_KEY, pem("TRUSTED CERTIFICATE", "AAAA"), None),
        (PLAIN_KEY, "-----BEGIN CERTIFICATE----------END CERTIFICATE-----", None),
        (PLAIN_KEY, "AAAA", None),
    ],
)
def test_commands_and_brokers_read_the_same_pem(
    read: Read, key: str, chain: str, expected: tuple[str, str] | None
) -> None:
    settings = {**TYPES, KEY: key, CHAIN: chain, TRUSTED: chain}
    if expected is None:
        with pytest.raises((ValueError, SecurityError), match="in PEM format"):
            read(settings)
    else:
        assert read(settings) == (*expected, expected[1])


def test_key_store_fits_into_a_pipe_and_trusted_certificates_may_be_many() -> None:
    key, chain = plain_pem()
    many = chain * (70_000 // len(chain) + 1)
    assert take_inline_pem("f", {**TYPES, TRUSTED: many}).trusted == many
    with pytest.raises(ValueError, match=rf"^{CHAIN}: at most 65536 characters are supported; write it to a file$"):
        take_inline_pem("f", {**TYPES, KEY: key, CHAIN: many})


def test_text_is_read_from_a_path() -> None:
    with readable("x" * 65_536) as path:
        assert Path(path).read_text() == "x" * 65_536
