from __future__ import annotations

import pytest

from broker.network.connection_counts import ConnectionCounts, ConnectionLimits, parse_overrides

HOST, OTHER = "10.0.0.1", "10.0.0.2"
PLENTY = ConnectionLimits(100, 100)


@pytest.fixture
def counts() -> ConnectionCounts:
    found = ConnectionCounts()
    for listener, host in (("A", HOST), ("A", HOST), ("B", OTHER)):
        found.add(listener, host)
    return found


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (PLENTY, None),
        (PLENTY._replace(max_connections=4), None),
        (PLENTY._replace(max_connections=3), "max.connections=3"),
        (PLENTY._replace(max_descriptors=3), "the open file limit (3 connections)"),
        (PLENTY._replace(per_listener={"A": 3, "B": 1}), None),
        (PLENTY._replace(per_listener={"A": 2}), "listener.name.a.max.connections=2"),
        (PLENTY._replace(max_connections_per_ip=3), None),
        (PLENTY._replace(max_connections_per_ip=2), "max.connections.per.ip=2"),
        (PLENTY._replace(max_connections_per_ip=2, overrides={HOST: 3}), None),
        (PLENTY._replace(max_connections_per_ip=2, overrides={OTHER: 3}), "max.connections.per.ip=2"),
        (PLENTY._replace(overrides={HOST: 2}), "max.connections.per.ip.overrides=10.0.0.1:2"),
        (PLENTY._replace(overrides={HOST: 0}), "max.connections.per.ip.overrides=10.0.0.1:0"),
    ],
)
def test_reached_returns_the_limit_that_one_more_connection_would_exceed(
    counts: ConnectionCounts, limits: ConnectionLimits, limit: str | None
) -> None:
    assert counts.reached(limits, "A", HOST) == limit


def test_closed_connections_do_not_count(counts: ConnectionCounts) -> None:
    counts.remove("A", HOST)
    assert counts.reached(PLENTY._replace(max_connections_per_ip=2), "A", HOST) is None
    assert counts.reached(PLENTY._replace(per_listener={"A": 2}), "A", HOST) is None
    assert counts.total == 2


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("", {}),
        ("127.0.0.1:5", {"127.0.0.1": 5}),
        (" 127.0.0.1:5 , example.org:7,", {"127.0.0.1": 5, "example.org": 7}),
        ("[::1]:5,fe80::2:6", {"::1": 5, "fe80::2": 6}),
        ("0:0:0:0:0:0:0:1:5,[FE80::2]:6", {"::1": 5, "fe80::2": 6}),
    ],
)
def test_overrides_are_host_and_limit_pairs(text: str, overrides: dict[str, int]) -> None:
    assert parse_overrides(text) == overrides
