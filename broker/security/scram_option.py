"""The first SCRAM users of a cluster, from `barnabas serve --add-scram` (KIP-900; Kafka: `ScramParser`).

    SCRAM-SHA-256=[name=alice,password=secret]
    SCRAM-SHA-512=[name="alice",iterations=8192,password-file=/run/secrets/alice]
    SCRAM-SHA-256=[name=alice,salt=BASE64,saltedpassword=BASE64]

The records become part of the bootstrap checkpoint of a new data directory. `password-file` is an addition to Kafka's
options: other users of the machine can read command lines. No message contains a password.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable

from controller.scram import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_BY_NAME, credential_from
from protocol.records.metadata import UserScramCredentialRecord

_OPTION = re.compile(r"([A-Za-z0-9-]+)=\[(.*)\]", re.DOTALL)
_PART = re.compile(r"""([a-z-]+)=(?:"([^"]*)"|([^,"]*))(?:,|$)""")
_NAMES = ("name", "password", "password-file", "saltedpassword", "salt", "iterations")
_SALT_BYTES = 24


def parse_add_scram(text: str, read_file: Callable[[str], bytes]) -> UserScramCredentialRecord:
    """Return the credential of one `--add-scram`; ValueError if it is invalid, OSError of the file."""
    match = _OPTION.fullmatch(text)
    if match is None:
        raise ValueError("write it as SCRAM-SHA-256=[name=USER,password=PASSWORD] or with SCRAM-SHA-512")
    mechanism = SCRAM_BY_NAME.get(match[1])
    if mechanism is None:
        raise ValueError(f"{match[1]} is not one of {', '.join(SCRAM_BY_NAME)}")
    parts = _parts(match[2])
    if not parts.get("name"):
        raise ValueError("name is missing")
    secrets = [name for name in ("password", "password-file", "saltedpassword") if parts.get(name)]
    if len(secrets) != 1:
        raise ValueError("give exactly one of password, password-file and saltedpassword")
    iterations = _iterations(parts.get("iterations", str(MIN_ITERATIONS)))
    salt = _decoded("salt", parts["salt"]) if "salt" in parts else None
    if secrets == ["saltedpassword"]:
        if salt is None:
            raise ValueError("saltedpassword needs its salt")
        salted = _decoded("saltedpassword", parts["saltedpassword"])
    else:
        salt = new_salt() if salt is None else salt
        if secrets == ["password"]:
            password = parts["password"].encode()
        else:
            password = read_file(parts["password-file"]).split(b"\n", 1)[0].rstrip(b"\r")
        if not password:
            raise ValueError("the password is empty")
        salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)
    credential = credential_from(mechanism, salt, salted, iterations)
    return UserScramCredentialRecord(name=parts["name"], mechanism=mechanism.number, **credential._asdict())


def new_salt() -> bytes:
    """Return a salt of random bytes of OpenSSL."""
    import ssl

    return ssl.RAND_bytes(_SALT_BYTES)


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            raise ValueError('between the brackets write NAME=VALUE or NAME="VALUE", separated by commas')
        name, quoted, plain = match.groups()
        if name not in _NAMES:  # it may be part of a password that has a comma
            raise ValueError(
                f"between the brackets the names are {', '.join(_NAMES)}; write a value that has a comma in quotes"
            )
        if name in parts:
            raise ValueError(f"{name} is given twice")
        parts[name] = plain if quoted is None else quoted
        at = match.end()
    return parts


def _iterations(text: str) -> int:
    valid = text.isascii() and text.isdecimal() and len(text) <= 9 and MIN_ITERATIONS <= int(text) <= MAX_ITERATIONS
    if not valid:
        raise ValueError(f"iterations must be from {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return int(text)


def _decoded(name: str, text: str) -> bytes:
    try:
        decoded = b64decode(text, validate=True)
    except Base64Error:
        raise ValueError(f"{name} is not base64") from None
    if not decoded:
        raise ValueError(f"{name} is empty")
    return decoded
