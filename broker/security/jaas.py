"""JAAS lines of `sasl.jaas.config`: a login module and its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="broker" password="broker-secret"
        user_broker="broker-secret" user_alice="alice-secret";

Messages name the place of an error and never a value, because values are secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from broker.security.security_error import SecurityError

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign>[=;])|(?P<word>[^\s=;"']+))""", re.DOTALL
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_FLAGS = ("required", "requisite", "sufficient", "optional")


class LoginModule(NamedTuple):
    """The class of a login module, and its options."""

    name: str
    options: Mapping[str, str]


def parse_jaas(setting: str, text: str) -> LoginModule:
    """Return the login module of a JAAS configuration; `SecurityError` if it is not exactly one."""
    tokens = _tokens(setting, text)
    if len(tokens) < 3 or tokens[-1] != ";":
        raise SecurityError(f'{setting}: write it as LOGIN_MODULE required OPTION="VALUE" ... ; with ; at the end')
    name, flag, *rest = tokens[:-1]
    if flag.lower() not in _FLAGS:
        raise SecurityError(f"{setting}: after the login module it has another word than {', '.join(_FLAGS)}")
    if len(rest) % 3 or any(sign != "=" for sign in rest[1::3]):
        raise SecurityError(f'{setting}: its options are not of the form OPTION="VALUE"')
    return LoginModule(name, dict(zip(rest[::3], rest[2::3], strict=True)))


def _tokens(setting: str, text: str) -> list[str]:
    tokens = []
    at, text = 0, text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise SecurityError(f"{setting}: invalid at character {at + 1}; is a quotation mark missing?")
        quoted = match["quoted"]
        tokens.append(_ESCAPE.sub(r"\1", quoted[1:-1]) if quoted else match["sign"] or match["word"])
        at = match.end()
    return tokens
