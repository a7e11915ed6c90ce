"""Settings of the client that users give with `-X NAME=VALUE`, as kcat takes them.

kafka-python has its own names for what librdkafka and Java call by others. A name is taken in any of the three
spellings (`security.protocol`, `security_protocol`), and a value becomes what the setting's default is: a number, true
or false, or text. One setting may be meant for a command's consumer and not for its admin client, so a name is
refused only if no client knows it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from barnabas._arguments import did_you_mean
from barnabas.commands._output import CommandError, WrongCall

# What librdkafka or Java call otherwise than kafka-python.
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
# kafka-python takes any other name for PLAINTEXT.
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OFFSET_RESETS = {"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest"}

# The brokers' addresses, which belong to -b: a command tries them one after the other and reports each that fails.
ADDRESSES = ("bootstrap_servers", "metadata_broker_list")

Setting = tuple[str, str]


def parse_setting(text: str) -> Setting:
    """Read NAME=VALUE; kcat's prefix `topic.` is understood, and means nothing here."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r}: write it as NAME=VALUE")
    return name.strip().removeprefix("topic."), value.strip()


def read_settings(path: str) -> list[Setting]:
    """Read a file of settings, one a line; `#` begins a comment."""
    try:
        with open(path, encoding="utf-8") as stream:
            lines = [line.strip() for line in stream]
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from error
    try:
        return [parse_setting(line) for line in lines if line and not line.startswith("#")]
    except argparse.ArgumentTypeError as error:
        raise WrongCall(f"{path}: {error}") from error


class Settings:
    """The user's settings, later ones over earlier ones, under kafka-python's names."""

    def __init__(self, *sources: Iterable[Setting]) -> None:
        self._given: dict[str, Setting] = {}
        for name, value in (setting for source in sources for setting in source):
            spelled = name.replace(".", "_").replace("-", "_")
            if spelled in ADDRESSES:
                raise WrongCall(f"{name}={value}: write the brokers' addresses as -b {value}")
            if spelled == "transactional_id":
                raise WrongCall(f"-X {name}: no command writes transactions")
            self._given[ALIASES.get(spelled, spelled)] = (name, value)

    @property
    def proxied(self) -> bool:
        """Whether the brokers are reached through a proxy, so that their addresses say little here."""
        return "proxy_url" in self._given or "socks5_proxy" in self._given

    @property
    def tls(self) -> bool:
        """Whether connections are to be encrypted."""
        return self._given.get("security_protocol", ("", ""))[1].upper().endswith("SSL")

    def of(self, kind: Any) -> dict[str, Any]:
        """Return those that this kind of client has; refuse what no kind has."""
        from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

        known = {}
        for client in (KafkaAdminClient, KafkaConsumer, KafkaProducer):
            known.update(client.DEFAULT_CONFIG)
        for name, (given, _) in self._given.items():
            if name not in known:
                raise WrongCall(f"-X {given}: there is no such setting{did_you_mean(given, _spellings(known))}")
        return {
            name: _value(name, given, text, known[name])
            for name, (given, text) in self._given.items()
            if name in kind.DEFAULT_CONFIG
        }


def _spellings(known: Iterable[str]) -> list[str]:
    return [name.replace("_", ".") for name in (*known, *ALIASES)]


def _value(name: str, given: str, text: str, default: Any) -> Any:
    """Return the value of kafka-python's setting `name`, in the type of its default; the user wrote `given`."""
    if default == -1 and text in ACKS:
        return ACKS[text]
    if isinstance(default, bool):
        if text.lower() not in BOOLEANS:
            raise WrongCall(f"-X {given}={text}: write true or false")
        return BOOLEANS[text.lower()]
    if isinstance(default, int | float) or name.endswith(("_bytes", "_ms")):
        try:
            return int(text)
        except ValueError as error:
            raise WrongCall(f"-X {given}={text}: write a number") from error
    if default == "PLAINTEXT":
        if text.upper() not in PROTOCOLS:
            raise WrongCall(f"-X {given}={text}: write one of {', '.join(PROTOCOLS)}")
        return text.upper()
    return OFFSET_RESETS.get(text, text)
