"""Certificates and private keys that a file of `--command-config` has in its settings, as PEM text (KIP-651).

OpenSSL reads private keys from files only. They reach it through a pipe, so that no file but the given one has them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import NamedTuple

TRUSTED, CHAIN, KEY = "ssl.truststore.certificates", "ssl.keystore.certificate.chain", "ssl.keystore.key"
# The patterns and `_in_lines` are those of broker/security/key_stores.py, which no command may import.
_CERTIFICATE = re.compile(r"-----BEGIN (CERTIFICATE)-----(.+?)-----END \1-----", re.DOTALL)
_PRIVATE_KEY = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----(.+?)-----END \1-----", re.DOTALL)
_PEM_WIDTH = 64
_MAX_CHARS = 64 << 10
"""What a pipe takes at once."""


class InlinePem(NamedTuple):
    """The PEM text of a file of settings, each with its base64 in lines; None for what the file does not have."""

    path: str = ""
    trusted: str | None = None
    chain: str | None = None
    key: str | None = None


NO_PEM = InlinePem()


def take_inline_pem(path: str, values: MutableMapping[str, str]) -> InlinePem:
    """Remove the settings with PEM text from the values of a file, and return them; ValueError if one is not valid.

    No message has a part of a value.
    """
    found = {name: values.pop(name) for name in (TRUSTED, CHAIN, KEY) if name in values}
    for name in found:
        store = name.split(".")[1]
        if (kind := values.get(f"ssl.{store}.type", "JKS").upper()) != "PEM":
            raise ValueError(f"{name} is for ssl.{store}.type=PEM, and that is {kind}")
        if f"ssl.{store}.location" in values:
            raise ValueError(f"{name} and ssl.{store}.location are both set: remove one of them")
    for name, other in ((KEY, CHAIN), (CHAIN, KEY)):
        if name in found and other not in found:
            raise ValueError(f"{name} is set: set {other} too")
    return InlinePem(
        path, *(_formatted(name, found[name]) if name in found else None for name in (TRUSTED, CHAIN, KEY))
    )


def _formatted(name: str, text: str) -> str:
    """Return the certificates, or the private key, of a value, in lines as OpenSSL needs them."""
    if name == KEY:
        what, objects = "private key", list(_PRIVATE_KEY.finditer(text))[:1]
    else:
        what, objects = "certificate", list(_CERTIFICATE.finditer(text))
    if not objects:
        raise ValueError(f"{name}: it has no {what} in PEM format (-----BEGIN {what.upper()}-----)")
    formatted = "".join(map(_in_lines, objects))
    if not formatted.isascii():
        raise ValueError(f"{name}: it is damaged")
    if name != TRUSTED and len(formatted) > _MAX_CHARS:
        raise ValueError(f"{name}: at most {_MAX_CHARS} characters are supported; write it to a file")
    return formatted


def _in_lines(found: re.Match[str]) -> str:
    """Return a PEM object in lines: in a properties file, the lines may have been joined."""
    label, content = found.groups()
    if ":" not in content:  # else it has headers, in lines of their own (RFC 1421)
        base64 = "".join(content.split())
        content = "\n".join(base64[at : at + _PEM_WIDTH] for at in range(0, len(base64), _PEM_WIDTH))
    return f"-----BEGIN {label}-----\n{content.strip()}\n-----END {label}-----\n"


@contextmanager
def readable(text: str) -> Iterator[str]:
    """Yield the path of a pipe that contains a text."""
    read_end, write_end = os.pipe()
    try:
        try:
            os.write(write_end, text.encode())
        finally:
            os.close(write_end)
        yield f"/dev/fd/{read_end}"
    finally:
        os.close(read_end)
