from __future__ import annotations

import pytest

from broker.network.listeners import (
    ListenerAddress,
    ListenerError,
    check_advertised,
    check_listeners,
    parse_endpoints,
    parse_protocol_map,
    split_host_port,
)

PLAIN = {"PLAINTEXT": "PLAINTEXT", "INTERNAL": "PLAINTEXT", "SSL": "SSL"}


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("PLAINTEXT://localhost:9092", ListenerAddress("PLAINTEXT", "localhost", 9092)),
        ("plaintext://127.0.0.1:0", ListenerAddress("PLAINTEXT", "127.0.0.1", 0)),
        ("PLAINTEXT://:9092", ListenerAddress("PLAINTEXT", "", 9092)),
        ("PLAINTEXT://[::1]:9092", ListenerAddress("PLAINTEXT", "::1", 9092)),
        ("INTERNAL://broker-1.example.org:19092", ListenerAddress("INTERNAL", "broker-1.example.org", 19092)),
    ],
)
def test_an_endpoint_is_name_host_and_port(text: str, endpoint: ListenerAddress) -> None:
    assert parse_endpoints("listeners", [text], PLAIN) == (endpoint,)


def test_endpoint_round_trips() -> None:
    for text in ("PLAINTEXT://localhost:9092", "PLAINTEXT://[::1]:9092", "PLAINTEXT://:9092"):
        assert str(parse_endpoints("listeners", [text], PLAIN)[0]) == text


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        (["localhost:9092"], "'localhost:9092' is not of the form NAME://HOST:PORT"),
        (["PLAINTEXT://localhost"], "not of the form"),
        (["PLAINTEXT://::1:9092"], r"with \[\] around an IPv6 host"),
        (["PLAINTEXT://localhost:65536"], "not between 0 and 65535"),
        (["PLAINTEXT://a:1", "plaintext://b:2"], "the listener PLAINTEXT is listed twice"),
        (["EXTERNAL://a:1"], "the listener EXTERNAL has no security protocol"),
    ],
)
def test_invalid_endpoint_has_an_explanation(items: list[str], problem: str) -> None:
    with pytest.raises(ListenerError, match=problem):
        parse_endpoints("listeners", items, PLAIN)


def test_protocol_map_maps_listener_names_to_protocols() -> None:
    assert parse_protocol_map("m", ["internal:plaintext", "CLIENTS:SASL_SSL"]) == {
        "INTERNAL": "PLAINTEXT",
        "CLIENTS": "SASL_SSL",
    }


@pytest.mark.parametrize("item", ["PLAINTEXT", "A:TLS", ":SSL"])
def test_invalid_protocol_map_has_an_explanation(item: str) -> None:
    with pytest.raises(ListenerError, match="protocols are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"):
        parse_protocol_map("m", [item])


def test_two_listeners_need_two_ports() -> None:
    one, other = ListenerAddress("A", "", 9092), ListenerAddress("B", "localhost", 9092)
    with pytest.raises(ListenerError, match="A and B have the same port 9092"):
        check_listeners("listeners", [one, other])
    check_listeners("listeners", [one._replace(port=0), other._replace(port=0)])


def test_only_listeners_are_advertised() -> None:
    listeners = [ListenerAddress("PLAINTEXT", "", 9092)]
    check_advertised("k", [ListenerAddress("PLAINTEXT", "example.org", 1234)], listeners)
    with pytest.raises(ListenerError, match="EXTERNAL is not one of the listeners: PLAINTEXT"):
        check_advertised("k", [ListenerAddress("EXTERNAL", "example.org", 1234)], listeners)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_wildcard_address_cannot_be_advertised(host: str) -> None:
    endpoint = ListenerAddress("PLAINTEXT", host, 9092)
    with pytest.raises(ListenerError, match=r"--advertise HOST:PORT \(advertised\.listeners\)"):
        check_advertised("k", [endpoint], [endpoint])


def test_port_out_of_range_and_malformed_address_have_different_errors() -> None:
    with pytest.raises(ValueError, match=r"^the port 99999 is not between 0 and 65535$"):
        split_host_port("127.0.0.1:99999")
    with pytest.raises(ValueError, match="write it as HOST:PORT"):
        split_host_port("127.0.0.1")
