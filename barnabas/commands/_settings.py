"""Client settings from `-X NAME=VALUE`, as in kcat.

kafka-python's names differ from those of librdkafka and Java. A name is accepted in any of the spellings
(`security.protocol`, `security_protocol`), and a value is converted to the type of the setting's default: number,
boolean or text. A setting may be for a command's consumer and not for its admin client, so a name is refused only if
no kind of client has it.
"""

import argparse
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from barnabas._arguments import did_you_mean
from barnabas.commands._inline_pem import NO_PEM, InlinePem
from barnabas.commands._output import CommandError, WrongCall

# Names of librdkafka or Java, and those of kafka-python.
ALIASES = {
    "compression_codec": "compression_type",
    "fetch_message_max_bytes": "max_partition_fetch_bytes",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "message_max_bytes": "max_request_size",
    "message_send_max_retries": "retries",
    "message_timeout_ms": "delivery_timeout_ms",
    "queue_buffering_max_ms": "linger_ms",
    "request_required_acks": "acks",
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_password": "sasl_plain_password",
    "sasl_username": "sasl_plain_username",
    "socket_receive_buffer_bytes": "receive_buffer_bytes",
    "socket_send_buffer_bytes": "send_buffer_bytes",
    "socket_timeout_ms": "request_timeout_ms",
    "ssl_ca_location": "ssl_cafile",
    "ssl_certificate_location": "ssl_certfile",
    "ssl_crl_location": "ssl_crlfile",
    "ssl_key_location": "ssl_keyfile",
    "ssl_key_password": "ssl_password",
}
ACKS = {"all": "all", "-1": "all", "0": 0, "1": 1}
BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
# kafka-python treats any other name as PLAINTEXT.
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
CHOICES = {
    "auto_offset_reset": ("earliest", "latest", "none"),
    "isolation_level": ("read_committed", "read_uncommitted"),
}
OFFSET_RESETS = {"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest"}

# Addresses are given by -b: a command tries them one after the other and reports each that fails.
ADDRESSES = ("bootstrap_servers", "metadata_broker_list")

_NAME = re.compile(r"[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)*")
_MAX_NAME_CHARS = 80
PEM_BEGINS, PEM_ENDS = "-----BEGIN", "-----END"
Setting = tuple[str, str]


class GivenSettings(NamedTuple):
    """Settings from one place; messages about them begin with `origin`."""

    settings: Iterable[Setting]
    origin: str = "-X "


def parse_setting(text: str) -> Setting:
    """Parse NAME=VALUE; kcat's prefix `topic.` is accepted and ignored."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r}: write it as NAME=VALUE")
    return name.strip().removeprefix("topic."), value.strip()


def read_settings(path: str) -> list[Setting]:
    """Read a file of settings, one per line; `#` starts a comment line.

    Messages have no text of the file but names: a line may be a part of a private key.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            lines = [line.strip() for line in stream]
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from error
    if any(line.startswith(PEM_BEGINS) for line in lines):
        raise pem_file_error(path)
    known = known_settings()
    settings = []
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        try:
            name, value = parse_setting(line)
        except argparse.ArgumentTypeError:
            raise WrongCall(f"{path}, line {number}: write it as NAME=VALUE") from None
        if not is_name(name):
            raise WrongCall(f"{path}, line {number}: that is not the name of a setting before the =")
        if spelled_name(name) not in (*known, *ADDRESSES):
            hint = did_you_mean(name, _spellings(known)) or "; a file of Kafka's tools is for --command-config"
            raise WrongCall(f"{path}, line {number}: there is no setting {name}{hint}")
        settings.append((name, value))
    return settings


def is_name(text: str) -> bool:
    """Return whether a word of a file may be the name of a setting, rather than a part of a secret in base64."""
    return len(text) <= _MAX_NAME_CHARS and _NAME.fullmatch(text) is not None


def pem_file_error(path: str) -> CommandError:
    """Return the error for a file of certificates or keys in place of one with settings."""
    return WrongCall(f"{path} is a PEM file, not settings")


def spelled_name(name: str) -> str:
    """Return kafka-python's name of a setting."""
    spelled = name.replace(".", "_").replace("-", "_")
    return ALIASES.get(spelled, spelled)


class ClientSettings:
    """The user's settings under kafka-python's names; later ones override earlier ones.

    kafka-python has no settings for `by_token`, that the login is that of a delegation token, and for `pem`.
    """

    def __init__(self, *sources: GivenSettings, by_token: bool = False, pem: InlinePem = NO_PEM) -> None:
        self.by_token, self.pem = by_token, pem
        self._given: dict[str, Setting] = {}  # with the origin before the user's name
        for settings, origin in sources:
            for name, value in settings:
                spelled = spelled_name(name)
                if spelled in ADDRESSES:
                    raise WrongCall(f"{name}={value}: write the brokers' addresses as -b {value}")
                if spelled == "transactional_id":
                    raise WrongCall(f"{origin}{name}: no command writes transactions")
                self._given[spelled] = (f"{origin}{name}", value)

    @property
    def proxied(self) -> bool:
        """Whether brokers are reached through a proxy: then their addresses cannot be probed."""
        return "proxy_url" in self._given or "socks5_proxy" in self._given

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self._given.get("security_protocol", ("", ""))[1].upper().endswith("SSL")

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the settings that this kind of client has; WrongCall for one that no kind has."""
        known = known_settings()
        for name, (given, _) in self._given.items():
            if name not in known:
                meant = did_you_mean(given.rpartition(" ")[2], _spellings(known))
                raise WrongCall(f"{given}: there is no such setting{meant}")
        return {
            name: _value(name, given, text, known[name])
            for name, (given, text) in self._given.items()
            if name in kind.DEFAULT_CONFIG
        }


def known_settings() -> dict[str, Any]:
    """Return the settings that any kind of kafka-python's clients has, with their defaults."""
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

    known: dict[str, Any] = {}
    for client in (KafkaAdminClient, KafkaConsumer, KafkaProducer):
        known.update(client.DEFAULT_CONFIG)
    return known


def _spellings(known: Iterable[str]) -> list[str]:
    return [name.replace("_", ".") for name in (*known, *ALIASES)]


def _value(name: str, given: str, text: str, default: Any) -> Any:
    """Return the value of kafka-python's setting `name` in the type of its default; `given` has the user's name."""
    if default == -1 and text in ACKS:
        return ACKS[text]
    if isinstance(default, bool):
        if text.lower() not in BOOLEANS:
            raise WrongCall(f"{given}={text}: write true or false")
        return BOOLEANS[text.lower()]
    if isinstance(default, int | float) or name.endswith(("_bytes", "_ms")):
        try:
            return int(text)
        except ValueError as error:
            raise WrongCall(f"{given}={text}: write a number") from error
    if default == "PLAINTEXT":
        if text.upper() not in PROTOCOLS:
            raise WrongCall(f"{given}={text}: write one of {', '.join(PROTOCOLS)}")
        return text.upper()
    value = OFFSET_RESETS.get(text, text)
    if value not in CHOICES.get(name, (value,)):
        raise WrongCall(f"{given}={text}: write one of {', '.join(CHOICES[name])}")
    return value
