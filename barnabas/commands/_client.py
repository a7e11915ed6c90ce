"""Connections to brokers for the commands: kafka-python clients, made from the common options.

kafka-python is imported when a command connects, never for `--help`. `send` sends requests that its API lacks.
`_settings.py` has the names and values of `-X`.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.commands._codecs import provide_zstd
from barnabas.commands._inline_pem import NO_PEM
from barnabas.commands._output import CommandError, RefusedConnection, WrongCall, add_json, complain, plain
from barnabas.commands._refusals import HTTP, refused_beginning
from barnabas.commands._secured import secured
from barnabas.commands._settings import (
    ADDRESSES,
    ClientSettings,
    GivenSettings,
    parse_setting,
    read_settings,
    spelled_name,
)

if TYPE_CHECKING:
    from kafka import KafkaConsumer

    from barnabas.commands._admin import Admin

DEFAULT_BROKERS = "127.0.0.1:9092"
DEFAULT_PORT = 9092
MAX_PORT = 65535
DEFAULT_TIMEOUT_S = 2.0
MAX_INT16, MAX_INT32, MAX_INT64 = 2**15 - 1, 2**31 - 1, 2**63 - 1
"""The largest values of the protocol's integers: replica counts, partitions and times, offsets."""
MAX_DIGITS = len(str(MAX_INT64))
MAX_SECONDS = MAX_INT32 // 1000  # requests have milliseconds
# Size, API key 18 (ApiVersions), version 0, correlation id 0, no client id.
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 0, -1)
LOOK_MS = 5000
"""Response timeout of commands that only describe the cluster: short, to report a lost majority soon."""


class _FromEnvironment(str):
    """Addresses that no option has given."""

    __slots__ = ()


def add_broker_options(parser: argparse.ArgumentParser) -> None:
    """Add the common options: the brokers' addresses, and client settings."""
    parser.set_defaults(brokers_given=False)
    # Set by `connect` once it has reported unreachable addresses: once per command, not per client.
    parser.set_defaults(unreachable_named=False)
    group = parser.add_argument_group("connection")
    group.add_argument(
        "-b",
        "--brokers",
        "--bootstrap-server",
        type=addresses,
        action=_StoreBrokers,
        metavar="HOST[:PORT][,...]",
        default=_FromEnvironment(os.environ.get("BARNABAS_BROKERS") or DEFAULT_BROKERS),
        help=f"addresses; the first that answers is used (default: $BARNABAS_BROKERS or {DEFAULT_BROKERS})",
    )
    group.add_argument(
        "-X",
        dest="settings",
        type=parse_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a client setting, with its name in librdkafka or the Java client; repeatable",
    )
    group.add_argument(
        "-F",
        dest="settings_file",
        metavar="FILE",
        help="a file with client settings, one NAME=VALUE per line, as for -X",
    )
    group.add_argument(
        "--command-config",
        metavar="FILE",
        default=os.environ.get("BARNABAS_COMMAND_CONFIG") or None,
        help="a file of Kafka's tools with settings of the Java client; its bootstrap.servers is the default of -b "
        "(default: $BARNABAS_COMMAND_CONFIG)",
    )
    group.add_argument(
        "-m",
        "--timeout",
        type=seconds,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help="timeout for a broker that does not answer (default: %(default)s)",
    )


class _StoreBrokers(argparse.Action):
    """Store the addresses, and that they were given: a default gives way to bootstrap.servers of a file."""

    def __call__(
        self, _: argparse.ArgumentParser, options: argparse.Namespace, values: Any, __: str | None = None
    ) -> None:
        options.brokers, options.brokers_given = values, True


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Add `--json` and the common options."""
    add_json(parser)
    add_broker_options(parser)


@contextmanager
def admin(options: argparse.Namespace, **own: Any) -> Iterator[Admin]:
    """Connect an admin client; close it at the end of the block."""
    from barnabas.commands._admin import Admin

    own.setdefault("reconnect_backoff_max_ms", 1000)  # so that --watch shows a recovered broker soon
    with closing(connect(Admin, options, **own)) as client:
        yield client


@contextmanager
def consumer(options: argparse.Namespace, **own: Any) -> Iterator[KafkaConsumer]:
    """Connect a consumer; close it at the end of the block."""
    from kafka import KafkaConsumer

    with closing(connect(KafkaConsumer, options, **own)) as client:
        yield client


def connect(kind: Any, options: argparse.Namespace, **own: Any) -> Any:
    """Return a client of this kind, connected to the first address that answers; CommandError if none does.

    kafka-python would choose any address, and may spend its timeout on unreachable ones. `own` are the command's
    settings, which the user's `-X` overrides.
    """
    from kafka.errors import KafkaConfigurationError, KafkaTimeoutError, UnrecognizedBrokerVersion

    from barnabas.commands._kafka_client import ClosedError, OneAttemptClient, RefusedError

    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # its log would mix with the output
    provide_zstd()
    settings = _settings(options)
    given = settings.of(kind)
    given |= secured(given, settings.pem)
    failures: list[str] = []
    closed_by: dict[str, list[str]] = {}
    for address in options.brokers:
        if not settings.proxied and (why := not_listening(address, options.timeout)):
            failures.append(f"{address} ({why})")
            continue
        try:
            client = kind(
                **{
                    "bootstrap_servers": address,
                    "client_id": "barnabas-cli",
                    "bootstrap_timeout_ms": int(options.timeout * 1000),
                    "kafka_client": partial(OneAttemptClient, by_token=settings.by_token),
                    **own,
                    **given,
                }
            )
        except ClosedError as error:
            failures.append(f"{address} ({error.why})")
            closed_by.setdefault(error.why, []).append(address)
        except RefusedError as error:  # as any other address would: brokers have the same users and authorities
            raise RefusedConnection(plain(str(error))) from error
        except (KafkaTimeoutError, UnrecognizedBrokerVersion):
            what = HTTP if not (settings.proxied or settings.tls) and is_http(address, options.timeout) else None
            did = what or f"it does not answer Kafka requests within {options.timeout:g} s"
            failures.append(f"{address} ({did})")
        except (KafkaConfigurationError, AssertionError, ValueError) as error:
            raise WrongCall(f"invalid client settings: {plain(str(error))}") from error
        else:
            if failures and not getattr(options, "unreachable_named", True):
                options.unreachable_named = True
                complain(options.command, f"no answer from {', '.join(failures)}; {address} answers")
            return client
    if sum(map(len, closed_by.values())) == len(failures):
        each = (f"{', '.join(closed)} ({why})" for why, closed in closed_by.items())
        raise CommandError(f"cannot connect to {', '.join(each)}")
    raise CommandError(
        f"no broker answers at {', '.join(failures)}; give others with -b or $BARNABAS_BROKERS, or start a "
        "broker with `barnabas serve`"
    )


def _settings(options: argparse.Namespace) -> ClientSettings:
    """Return the client settings of the command line and its files; set `options.brokers` if `-b` was not given."""
    sources = []
    bootstrap_servers, by_token, pem = None, False, NO_PEM
    if path := getattr(options, "command_config", None):
        from barnabas.commands._command_config import read_command_config

        config = read_command_config(path, partial(complain, options.command))
        sources.append(GivenSettings(config.settings, f"{path}: "))
        bootstrap_servers, by_token, pem = config.bootstrap_servers, config.by_token, config.pem
    if options.settings_file:
        from_file = read_settings(options.settings_file)
        others = [setting for setting in from_file if spelled_name(setting[0]) not in ADDRESSES]
        sources.append(GivenSettings(others, f"{options.settings_file}: "))
        bootstrap_servers = next(
            (value for name, value in from_file if spelled_name(name) in ADDRESSES), bootstrap_servers
        )
    if bootstrap_servers and not getattr(options, "brokers_given", True):
        try:
            options.brokers = addresses(bootstrap_servers)
        except argparse.ArgumentTypeError as error:
            raise WrongCall(f"bootstrap.servers: {error}") from None
    return ClientSettings(*sources, GivenSettings(options.settings), by_token=by_token, pem=pem)


def send(client: Any, request: Any, node: int | None = None, timeout_ms: float | None = None) -> Any:
    """Send one request through a client, and return the response: for requests that its API lacks."""
    return client._manager.run(lambda: client._manager.send(request, node_id=node, request_timeout_ms=timeout_ms))


@contextmanager
def closing(client: Any) -> Iterator[Any]:
    """Close a client at the end of the block; ignore Kafka errors in closing."""
    from kafka.errors import KafkaError

    try:
        yield client
    finally:
        with contextlib.suppress(KafkaError):
            client.close()


def pair(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: write it as NAME=VALUE")
    return name, value


def each_once(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the values by name; WrongCall if a name is repeated."""
    values = dict(pairs)
    for name in values:
        if sum(name == other for other, _ in pairs) > 1:
            raise WrongCall(f"{name} is given more than once")
    return values


def positive(text: str, most: int = MAX_INT64) -> int:
    """Parse an integer from 1 to `most`."""
    if not (text.isascii() and text.isdecimal() and text.strip("0")):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    if len(text) > MAX_DIGITS or int(text) > most:
        raise argparse.ArgumentTypeError(f"{text!r}: the most is {most:,}")
    return int(text)


def natural(text: str, most: int = MAX_INT64) -> int:
    """Parse an integer from 0 to `most`."""
    if text.isascii() and text.isdecimal() and not text.strip("0"):
        return 0
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 0")
    return positive(text, most)


def partition_count(text: str) -> int:
    """Parse a number of partitions."""
    return positive(text, MAX_INT32)


def replica_count(text: str) -> int:
    """Parse a number of replicas."""
    return positive(text, MAX_INT16)


def number(text: str) -> int:
    """Parse an integer, such as a partition."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if abs(value) > MAX_INT32:
        raise argparse.ArgumentTypeError(f"{text!r}: the most is {MAX_INT32:,}")
    return value


def seconds(text: str) -> float:
    """Parse a time in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    if value > MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r}: the most is {MAX_SECONDS:,} seconds")
    return value


def addresses(text: str) -> list[str]:
    """Parse comma-separated addresses; the default port is 9092."""
    try:
        return [_address(part.strip()) for part in text.split(",")]
    except argparse.ArgumentTypeError as error:
        if isinstance(text, _FromEnvironment):
            raise argparse.ArgumentTypeError(f"$BARNABAS_BROKERS is {str(text)!r}: {error}") from None
        raise


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or (text.endswith("]") and text.startswith("[")):
        host, port = text, str(DEFAULT_PORT)
    if host and port.isdecimal() and int(port) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r}: port {port} is above {MAX_PORT}; write it as HOST:PORT")
    if not host or not port.isdecimal() or not int(port):
        raise argparse.ArgumentTypeError(f"{text!r}: write it as HOST:PORT")
    return f"{host}:{port}"


def not_listening(address: str, timeout_s: float) -> str | None:
    """Return why an address cannot be connected to, else None; kafka-python would retry until its timeout."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
    except OSError as error:
        return reason(error)
    return None


def is_http(address: str, timeout_s: float) -> bool:
    """Return whether an HTTP server is at an address without a broker: it waits for the end of a line."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), timeout_s) as connection:
        connection.sendall(API_VERSIONS + b"\r\n\r\n")
        return refused_beginning(connection.recv(64)) == HTTP
    return False


def reason(error: OSError) -> str:
    """Return why a connection failed, in lower case."""
    if isinstance(error, TimeoutError):
        return "timed out"
    return (error.strerror or str(error)).lower()
