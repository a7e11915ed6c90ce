"""Show the cluster: its id, controller, brokers, features, and how its partitions are."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from barnabas.commands._client import add_broker_options, admin
from barnabas.commands._output import add_json, print_facts, print_table, show_json
from barnabas.commands._partitions import under_replicated, without_leader
from barnabas.commands._topics import choose

EXAMPLES = """
  barnabas cluster
  barnabas cluster --json | jq -r .id
"""
BROKERS = ("broker", "host", "port", "rack", "controller", "fenced")
FEATURES = ("feature", "finalized", "supported")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_json(parser)
    add_broker_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print what the brokers tell of the cluster."""
    with admin(options) as client:
        about = client.describe_cluster()
        topics = choose(client, [])
        features = client.describe_features()
        version = ".".join(map(str, client._manager.broker_version))
    partitions = [partition for topic in topics for partition in topic["partitions"]]
    cluster = {
        "id": about["cluster_id"],
        "controller": about["controller_id"],
        "api_level": version,
        "topics": len(topics),
        "partitions": len(partitions),
        "without_leader": len(without_leader(topics)),
        "under_replicated": len(under_replicated(topics)),
        "brokers": [
            {
                "broker": broker["broker_id"],
                "host": broker["host"],
                "port": broker["port"],
                "rack": broker["rack"],
                "controller": broker["broker_id"] == about["controller_id"],
                "fenced": bool(broker.get("is_fenced")),
            }
            for broker in sorted(about["brokers"], key=lambda broker: int(broker["broker_id"]))
        ],
        "features": [_feature(name, levels) for name, levels in sorted(features.items())],
    }
    if options.json:
        show_json(cluster)
        return 0
    print_facts({name: value for name, value in cluster.items() if not isinstance(value, list)})
    for columns, rows in ((BROKERS, cluster["brokers"]), (FEATURES, cluster["features"])):
        sys.stdout.write("\n")
        print_table(columns, rows)
    return 0


def _feature(name: str, levels: dict[str, Any]) -> dict[str, Any]:
    lowest, highest = levels.get("supported", (None, None))
    finalized = levels.get("finalized")
    return {
        "feature": name,
        "finalized": finalized[1] if finalized else 0,
        "supported": None if lowest is None else f"{lowest}-{highest}",
    }
