"""The settings of the brokers of a cluster on one machine: of `barnabas up`, and of the test kit.

The first brokers, an odd number of at most three, are controllers too.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import NamedTuple

MOST_VOTERS = 3
MOST_COPIES = 3
CLIENTS = "PLAINTEXT"
CONTROLLERS = "CONTROLLER"

# Settings that differ between brokers, or that identify the cluster.
OURS = frozenset(
    {
        "advertised.listeners",
        "barnabas.cluster.id",
        "controller.quorum.voters",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "process.roles",
    }
)


class Address(NamedTuple):
    """An address to listen on."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class NodeAddresses(NamedTuple):
    """The addresses of one broker; `controller` is None for one that is no controller."""

    node_id: int
    clients: Address
    controller: Address | None


def voter_count(brokers: int) -> int:
    """Return how many of `brokers` vote: an odd number, as an even one tolerates no more failures."""
    most = min(brokers, MOST_VOTERS)
    return most - (most + 1) % 2


def settings_of(
    node: NodeAddresses,
    nodes: Sequence[NodeAddresses],
    cluster_id: str,
    data_dir: str,
    own: Mapping[str, str],
    clients_listener: str = CLIENTS,
) -> dict[str, str]:
    """Return the settings of one of `nodes`; the user's `own` override the defaults.

    `clients_listener` is the name of the listener for clients.
    """
    copies = min(len(nodes), MOST_COPIES)
    listeners = [f"{clients_listener}://{node.clients}"]
    if node.controller is not None:
        listeners.append(f"{CONTROLLERS}://{node.controller}")
    voters = [f"{one.node_id}@{one.controller}" for one in nodes if one.controller is not None]
    return {
        "node.id": str(node.node_id),
        "process.roles": "broker" if node.controller is None else "broker,controller",
        "barnabas.cluster.id": cluster_id,
        "controller.quorum.voters": ",".join(voters),
        "listeners": ",".join(listeners),
        "log.dirs": data_dir,
        "default.replication.factor": str(copies),
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": "2" if copies > 2 else "1",
        "min.insync.replicas": "2" if copies > 2 else "1",
        "group.initial.rebalance.delay.ms": "0",
        **own,
    }


def new_cluster_id() -> str:
    """Return a random cluster id."""
    while (text := urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")).startswith("-"):
        pass  # a leading "-" would look like an option
    return text
