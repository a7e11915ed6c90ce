"""Files of Kafka's option `--command-config`, with settings of the Java client, as settings of the commands' clients.

Such a file has Java's properties format. Key stores must be PEM, in files or in the settings themselves: OpenSSL reads
nothing else. A setting that the commands do not have is reported and ignored, as by Kafka's tools. Messages have no
text of the file but names of settings: a line may be a part of a private key.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from typing import NamedTuple

from barnabas.commands._inline_pem import NO_PEM, InlinePem, take_inline_pem
from barnabas.commands._output import CommandError, WrongCall, amount_of
from barnabas.commands._settings import (
    PEM_BEGINS,
    PEM_ENDS,
    Setting,
    is_name,
    known_settings,
    pem_file_error,
    spelled_name,
)

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_LOGIN_MODULES = ("org.apache.kafka.common.security.plain.PlainLoginModule", _SCRAM)
_KEY_AND_VALUE = re.compile(r"((?:\\.|[^\\\s=:])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_STORES = {"truststore": "ssl_cafile", "keystore": "ssl_certfile"}
_CONVERTED = ("ssl.truststore.type", "ssl.keystore.type", "ssl.keystore.password", "ssl.truststore.password")


class CommandConfig(NamedTuple):
    """The contents of a file: settings of kafka-python or of the Java client, and the addresses of brokers, if any.

    `by_token`: the user and the password are the id and the HMAC of a delegation token.
    """

    settings: list[Setting]
    bootstrap_servers: str | None
    by_token: bool = False
    pem: InlinePem = NO_PEM


def read_command_config(path: str, warn: Callable[[str], None]) -> CommandConfig:
    """Read a file; `CommandError` if it cannot be read, `WrongCall` if a value cannot be used.

    `warn` is called with a message about settings that are ignored.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from error
    values = _parse(text)
    if any(name.startswith(PEM_BEGINS) for name in values):
        raise pem_file_error(path)
    if any(name.startswith(PEM_ENDS) for name in values):
        raise WrongCall(f"{path}: each line of PEM text but its last must end with a backslash")
    bootstrap_servers = values.pop("bootstrap.servers", None)
    login = _Login()
    try:
        if (jaas := values.pop("sasl.jaas.config", None)) is not None:
            login = _login(jaas)
        pem = take_inline_pem(path, values)
        settings = [*login.settings, *_converted(values)]
    except ValueError as error:
        raise WrongCall(f"{path}: {error}") from None
    known = known_settings()
    if ignored := [name for name, _ in settings if spelled_name(name) not in known]:
        warn(f"{path}: ignoring {_listed(ignored)}")
    kept = [setting for setting in settings if setting[0] not in ignored]
    return CommandConfig(kept, bootstrap_servers, login.by_token, pem)


def _listed(ignored: list[str]) -> str:
    """Return the settings that are ignored, and only how many lines there are whose text is not the name of one."""
    names = list(filter(is_name, ignored))
    found = [f"settings that these commands do not have: {', '.join(names)}"] if names else []
    if others := len(ignored) - len(names):
        found.append(amount_of(others, "line that is no setting", "lines that are no settings"))
    return "; ".join(found)


def _parse(text: str) -> dict[str, str]:
    """Return the values of a properties file (`java.util.Properties`)."""
    values = {}
    joined = ""
    for line in text.splitlines():
        line = line.lstrip(" \t\f")
        if not joined and line[:1] in ("", "#", "!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined += line[:-1]
            continue
        match = _KEY_AND_VALUE.fullmatch(joined + line)
        joined = ""
        if match is not None:
            values[_unescaped(match[1])] = _unescaped(match[2])
    return values


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escape = match[1]
        return chr(int(escape[1:], 16)) if len(escape) > 1 else _ESCAPES.get(escape, escape)

    return _ESCAPE.sub(character, text)


def _converted(values: dict[str, str]) -> Iterator[Setting]:
    """Yield the settings; ValueError for a value that cannot be used. No message has a secret."""
    for name, value in values.items():
        if name == "ssl.endpoint.identification.algorithm":
            yield "ssl_check_hostname", str(bool(value)).lower()
        elif name.endswith("store.location"):
            store = name.split(".")[1]
            if values.get(f"ssl.{store}.type", "JKS").upper() != "PEM":
                raise ValueError(
                    f"{name}: the commands read PEM only; convert the file (`keytool -exportcert -rfc`), and set "
                    f"ssl.{store}.type=PEM"
                )
            yield _STORES[store], value
        elif name not in _CONVERTED:
            yield name, value


class _Login(NamedTuple):
    """User and password, and whether they are those of a delegation token."""

    settings: tuple[Setting, ...] = ()
    by_token: bool = False


def _login(text: str) -> _Login:
    """Return the login of a JAAS line; ValueError if the commands cannot use it."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="=;")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        module, _, *rest, end = lexer
    except ValueError:
        raise ValueError('sasl.jaas.config: write it as MODULE required username="..." password="...";') from None
    if module not in _LOGIN_MODULES:
        raise ValueError(f"sasl.jaas.config: the commands log in by {' and '.join(_LOGIN_MODULES)}, not by {module}")
    options = dict(zip(rest[::3], rest[2::3], strict=False))
    if end != ";" or not {"username", "password"} <= options.keys():
        raise ValueError("sasl.jaas.config: username, password or the ; at the end is missing")
    by_token = options.get("tokenauth", "").lower() == "true"
    if by_token and module != _SCRAM:
        raise ValueError(f"sasl.jaas.config: tokenauth is for {_SCRAM}, not for {module}")
    user = ("sasl_plain_username", options["username"])
    return _Login((user, ("sasl_plain_password", options["password"])), by_token)
