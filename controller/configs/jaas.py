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

from controller.configs.definition import ConfigError
from controller.configs.listener_names import is_listener_setting, without_listener
from controller.scram import SCRAM_BY_NAME

JAAS = "sasl.jaas.config"
"""The name of the settings, after those of a listener and of a mechanism."""

LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(SCRAM_BY_NAME, "org.apache.kafka.common.security.scram.ScramLoginModule"),
}
"""The class of the login module of each mechanism that has users or passwords."""

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign>[=;])|(?P<word>[^\s=;"']+))""", re.DOTALL
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_FLAGS = ("required", "requisite", "sufficient", "optional")


class LoginModule(NamedTuple):
    """The class of a login module, and its options."""

    name: str
    options: Mapping[str, str]


def check_jaas(settings: Mapping[str, str]) -> None:
    """Raise ConfigError if a JAAS setting of a single listener, in settings by name, cannot be used."""
    for name, text in settings.items():
        if is_listener_setting(name) and without_listener(name) == JAAS:
            mechanism = name.removesuffix(f".{JAAS}").rpartition(".")[2].upper()
            if mechanism in LOGIN_MODULES:
                login_module(name, mechanism, text)
            else:
                parse_jaas(name, text)


def login_module(setting: str, mechanism: str, text: str) -> LoginModule:
    """Return the login module of one of `LOGIN_MODULES`; ConfigError if `text` is not exactly that."""
    module = parse_jaas(setting, text)
    if module.name != LOGIN_MODULES[mechanism]:
        raise ConfigError(f"{setting}: the login module of {mechanism} is {LOGIN_MODULES[mechanism]}")
    return module


def parse_jaas(setting: str, text: str) -> LoginModule:
    """Return the login module of a JAAS configuration; ConfigError if it is not exactly one."""
    tokens = _tokens(setting, text)
    if len(tokens) < 3 or tokens[-1] != ";":
        raise ConfigError(f'{setting}: write it as LOGIN_MODULE required OPTION="VALUE" ... ; with ; at the end')
    name, flag, *rest = tokens[:-1]
    if flag.lower() not in _FLAGS:
        raise ConfigError(f"{setting}: after the login module it has another word than {', '.join(_FLAGS)}")
    if len(rest) % 3 or any(sign != "=" for sign in rest[1::3]):
        raise ConfigError(f'{setting}: its options are not of the form OPTION="VALUE"')
    return LoginModule(name, dict(zip(rest[::3], rest[2::3], strict=True)))


def _tokens(setting: str, text: str) -> list[str]:
    tokens = []
    at, text = 0, text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ConfigError(f"{setting}: invalid at character {at + 1}; is a quotation mark missing?")
        quoted = match["quoted"]
        tokens.append(_ESCAPE.sub(r"\1", quoted[1:-1]) if quoted else match["sign"] or match["word"])
        at = match.end()
    return tokens
