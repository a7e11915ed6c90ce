from __future__ import annotations

import argparse
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from barnabas.commands._client import add_broker_options, pair, positive, seconds
from barnabas.commands._parser import find, make_parser
from barnabas.commands.health import examine
from tests.broker_process import BrokerProcess
from tests.unit.barnabas.conftest import Command


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_broker_options(parser)
    return parser.parse_args(arguments)


def test_local_broker_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BARNABAS_BROKERS", raising=False)
    assert parse().brokers == ["127.0.0.1:9092"]


def test_an_empty_variable_counts_as_unset_and_a_wrong_one_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BARNABAS_BROKERS", "")
    assert parse().brokers == ["127.0.0.1:9092"]
    monkeypatch.setenv("BARNABAS_BROKERS", "a:1,")
    with pytest.raises(SystemExit):
        parse()
    assert "$BARNABAS_BROKERS is 'a:1,': '': write it as HOST:PORT\n" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parse("-b", ":")
    assert "BARNABAS_BROKERS" not in capsys.readouterr().err


def test_option_overrides_the_environment_and_the_environment_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_BROKERS", "a:1,b")
    assert parse().brokers == ["a:1", "b:9092"]
    assert parse("-b", "[::1]:3, c ").brokers == ["[::1]:3", "c:9092"]
    assert parse("--bootstrap-server", "[::1]").brokers == ["[::1]:9092"]


@pytest.mark.parametrize("option", ["-F", "--command-config"])
def test_bootstrap_servers_of_a_file_replace_the_default_and_give_way_to_the_option(
    call: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=no.such.host.invalid:1\n")
    monkeypatch.setenv("BARNABAS_BROKERS", "other.host.invalid:1")
    assert "no broker answers at no.such.host.invalid:1 (" in call("topic", "list", option, str(path)).err
    given = call("topic", "list", "-b", "third.host.invalid:1", option, str(path))
    assert "no broker answers at third.host.invalid:1 (" in given.err
    path.write_text("bootstrap.servers=:\n")
    assert call("topic", "list", option, str(path)).status == 2


def test_help_shows_the_default_regardless_of_the_environment(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_BROKERS", "elsewhere:1")
    shown = call("topic", "list", "--help")
    assert "(default: $BARNABAS_BROKERS or 127.0.0.1:9092)" in " ".join(shown.out.split())


@pytest.mark.parametrize("address", ["localhost:kafka", ":9092", "a:1,,b:2", "", "a:0", "a:65536"])
def test_invalid_address_is_a_wrong_call(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse("--brokers", address)
    assert end.value.code == 2
    assert "write it as HOST:PORT" in capsys.readouterr().err


def test_refused_connection_is_reported_at_once(call: Command) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        began = time.monotonic()
        status, out, err = call("topic", "list", "-b", f"{address},no.such.host.invalid:1")
        assert time.monotonic() - began < 10
    assert (status, out) == (1, "")
    assert err.startswith(f"barnabas topic list: no broker answers at {address} (connection refused), no.such.host")
    assert err.endswith("; give others with -b or $BARNABAS_BROKERS, or start a broker with `barnabas serve`\n")


def test_first_reachable_address_is_used(call: Command, shared_broker: BrokerProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        useless = [f"127.0.0.1:{one.getsockname()[1]}" for one in (silent, bound)]
        shown = call("topic", "list", "-b", ",".join([*useless, shared_broker.bootstrap]), "-m", "2")
    first = f"{useless[0]} (it does not answer Kafka requests within 2 s)"
    away = f"no answer from {first}, {useless[1]} (connection refused); {shared_broker.bootstrap} answers"
    assert (shown.status, shown.err) == (0, f"barnabas topic list: {away}\n")


def test_unreachable_address_is_reported_once_for_several_connections(
    call: Command, shared_broker: BrokerProcess
) -> None:
    options = make_parser(find(["health"])).parse_args(["-b", f"127.0.0.1:1,{shared_broker.bootstrap}"])
    for _ in range(2):
        assert examine(options)[0]["ok"]
    assert call("topic", "list", "-b", shared_broker.bootstrap).err.count("no answer from 127.0.0.1:1") == 1


@pytest.mark.parametrize(
    ("received", "shown"),
    [
        (b"\x15\x03\x03\0\2\2\x46", "cannot connect to {}: it requires TLS: set security.protocol=SSL or SASL_SSL"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "cannot connect to {}: an HTTP server, not a Kafka broker"),
        (b"", "cannot connect to {} (it closes the connection without a response; does it require TLS? Set security"),
    ],
)
def test_another_protocol_on_the_port_is_named_at_once(call: Command, received: bytes, shown: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, responding(server, received):
        address = f"127.0.0.1:{server.getsockname()[1]}"
        err = call("topic", "list", "-b", address, "-m", "60").err
    assert err.startswith(f"barnabas topic list: {shown.format(address)}")


def test_reason_that_several_addresses_have_is_printed_once(call: Command) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
        responding(one, b""),
        responding(other, b""),
    ):
        addresses = [f"127.0.0.1:{server.getsockname()[1]}" for server in (one, other)]
        err = call("topic", "list", "-b", ",".join(addresses), "-m", "60").err
    assert err == (
        f"barnabas topic list: cannot connect to {', '.join(addresses)} (it closes the connection without a response; "
        "does it require TLS? Set security.protocol=SSL or SASL_SSL)\n"
    )


@contextmanager
def responding(server: socket.socket, response: bytes) -> Iterator[None]:
    """Send the response to the first bytes of each connection, and close it, in a thread, until the block ends."""

    def respond() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                if connection.recv(1024) and response:
                    connection.sendall(response)

    thread = threading.Thread(target=respond)
    thread.start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_http_server_that_waits_for_the_end_of_a_line_is_recognized(call: Command) -> None:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        answering = threading.Thread(target=server.serve_forever)
        answering.start()
        try:
            err = call("topic", "list", "-b", f"127.0.0.1:{server.server_port}", "-m", "0.3").err
        finally:
            server.shutdown()
            answering.join()
    assert "(an HTTP server, not a Kafka broker)" in err


def test_invalid_port_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("-b", "127.0.0.1:99999")
    assert "port 99999 is above 65535" in capsys.readouterr().err


def test_listener_that_is_no_broker_is_reported_within_the_timeout(call: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        shown = call("topic", "list", "-b", address, "-m", "0.3")
    assert shown == (
        1,
        "",
        f"barnabas topic list: no broker answers at {address} (it does not answer Kafka requests within 0.3 s); "
        "give others with -b or $BARNABAS_BROKERS, or start a broker with `barnabas serve`\n",
    )


@pytest.mark.parametrize(("text", "read"), [("a=b", ("a", "b")), ("a=", ("a", "")), ("a=b=c", ("a", "b=c"))])
def test_pair_is_split_at_the_first_equals_sign(text: str, read: tuple[str, str]) -> None:
    assert pair(text) == read


@pytest.mark.parametrize("text", ["a", "=b", ""])
def test_a_pair_needs_a_name_and_an_equals_sign(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="write it as NAME=VALUE"):
        pair(text)


def test_count_is_at_least_one() -> None:
    assert positive("12") == 12
    for text in ("0", "-1", "two", "", "1.5", "\u0663"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a number of at least 1"):
            positive(text)


def test_duration_is_greater_than_zero() -> None:
    assert seconds("0.5") == 0.5
    for text in ("0", "-1", "soon", "inf", "nan"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a positive number of seconds"):
            seconds(text)
