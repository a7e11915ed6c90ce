"""Show the cluster: its id, controllers, brokers, features, and the partitions that are not as they should be.

A partition is offline if nobody leads it; under min ISR if fewer replicas are in sync than its topic's
min.insync.replicas, so that producers with acks=all have to wait; under-replicated if a replica is not in sync.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import add_broker_options, admin
from barnabas.commands._configs import topics_values
from barnabas.commands._output import add_json, print_facts, print_table, show_json
from barnabas.commands._partitions import under_min_isr, under_replicated, without_leader
from barnabas.commands._topics import choose
from barnabas.commands._watch import add_watch, repeat
from barnabas.commands.cluster.quorum import describe as describe_quorum

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

EXAMPLES = """
  barnabas cluster
  barnabas cluster --watch
  barnabas cluster --json | jq -r .id
"""
CONTROLLERS = ("controller", "status", "log_end", "lag", "caught_up")
BROKERS = ("broker", "host", "port", "rack", "controller", "fenced")
PARTITIONS = ("partition", "problem")
FEATURES = ("feature", "finalized", "supported")
TABLES = {"controllers": CONTROLLERS, "brokers": BROKERS, "problems": PARTITIONS, "features": FEATURES}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_watch(parser)
    add_json(parser)
    add_broker_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print what the brokers tell of the cluster, again and again if that is asked for."""
    with admin(options) as client:
        return repeat(options, lambda: _show(client, options))


def _show(client: KafkaAdminClient, options: argparse.Namespace) -> int:
    cluster = _describe(client)
    if options.json:
        show_json(cluster)
        return 0
    print_facts({name: value for name, value in cluster.items() if not isinstance(value, list)})
    for name, columns in TABLES.items():
        if cluster[name]:
            sys.stdout.write("\n")
            print_table(columns, cluster[name])
    return 0


def _describe(client: KafkaAdminClient) -> dict[str, Any]:
    about = client.describe_cluster()
    topics = choose(client, [])
    least = topics_values(client, [topic["name"] for topic in topics], "min.insync.replicas")
    quorum = describe_quorum(client)
    wrong = {
        "offline": without_leader(topics),
        "under min ISR": under_min_isr(topics, {topic: int(value) for topic, value in least.items()}),
        "under-replicated": under_replicated(topics),
    }
    problems: dict[str, str] = {}
    for problem, partitions in wrong.items():
        for partition in partitions:
            problems.setdefault(partition, problem)
    return {
        "id": about["cluster_id"],
        "controller": quorum["leader"],
        "epoch": quorum["epoch"],
        "api_level": ".".join(map(str, client._manager.broker_version)),
        "topics": len(topics),
        "partitions": sum(len(topic["partitions"]) for topic in topics),
        "without_leader": len(wrong["offline"]),
        "under_min_isr": len(wrong["under min ISR"]),
        "under_replicated": len(wrong["under-replicated"]),
        "controllers": [{"controller": node["node"], **node} for node in quorum["nodes"]],
        "brokers": [
            {
                "broker": broker["broker_id"],
                "host": broker["host"],
                "port": broker["port"],
                "rack": broker["rack"],
                "controller": broker["broker_id"] == quorum["leader"],
                "fenced": bool(broker.get("is_fenced")),
            }
            for broker in sorted(about["brokers"], key=lambda broker: int(broker["broker_id"]))
        ],
        "problems": [{"partition": partition, "problem": problem} for partition, problem in problems.items()],
        "features": [_feature(name, levels) for name, levels in sorted(client.describe_features().items())],
    }


def _feature(name: str, levels: dict[str, Any]) -> dict[str, Any]:
    lowest, highest = levels.get("supported", (None, None))
    finalized = levels.get("finalized")
    return {
        "feature": name,
        "finalized": finalized[1] if finalized else 0,
        "supported": None if lowest is None else f"{lowest}-{highest}",
    }
