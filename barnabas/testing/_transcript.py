"""The transcript of a cluster: the last requests of clients and their responses, of all brokers that serve."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.testing._control import path_of
from barnabas.testing._nodes import Nodes
from barnabas.testing.broker import Broker

REQUESTS = 100
"""How many requests of each broker, by default."""


def requests(nodes: Nodes, **query: object) -> list[dict[str, Any]]:
    """Return the exchanges that fulfil a query of the control API, in the order of their arrival."""
    found: list[dict[str, Any]] = [
        json.loads(line) for broker in nodes.serving for line in _lines(broker, {**query, "format": "json"})
    ]
    return sorted(found, key=lambda one: (one["time_ms"], one["broker"], one["number"]))


def transcript(nodes: Nodes, **query: object) -> str:
    """Return them as text: the time of the day in UTC, the client, the request and the response."""
    return "\n".join(lines_of(nodes.serving, query))


def lines_of(brokers: Sequence[Broker], query: Mapping[str, object]) -> list[str]:
    """Return the lines of some brokers, in the order of their arrival, with the broker if there are several."""
    found = [(line, broker) for broker in brokers for line in _lines(broker, {**query, "format": "text"})]
    if len(brokers) == 1:
        return [line for line, _ in found]
    found.sort(key=lambda one: one[0].partition(" ")[0])
    return [f"broker {broker.node_id}: {line}" for line, broker in found]


def _lines(broker: Broker, query: Mapping[str, object]) -> list[str]:
    path = path_of("transcript", **query)
    return broker.control.begin("GET", path).data().decode().splitlines()
