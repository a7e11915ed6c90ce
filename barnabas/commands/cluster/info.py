"""Show the cluster: its id, controllers, brokers, features, and partitions with problems.

A partition is offline if it has no leader; under min ISR if its ISR is smaller than the topic's min.insync.replicas (at
most the number of replicas), so that producers with acks=all have to wait; under-replicated if a
replica is not in sync.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import LOOK_MS, add_common_options, admin
from barnabas.commands._configs import topics_values
from barnabas.commands._output import CommandError, Row, complain_of, print_facts, print_table, show_json
from barnabas.commands._partitions import under_min_isr, under_replicated, without_leader
from barnabas.commands._progress import waiting
from barnabas.commands._topics import choose
from barnabas.commands._watch import add_watch, repeat
from barnabas.commands.cluster.quorum import CONTROLLER, with_age
from barnabas.commands.cluster.quorum import describe as describe_quorum

if TYPE_CHECKING:
    from barnabas.commands._admin import Admin

EXAMPLES = """
  barnabas cluster
  barnabas cluster --verbose            with features and their levels
  barnabas cluster --watch              every 2 seconds
  barnabas cluster --json | jq -r .id
"""
CONTROLLERS = ("controller", "status", "log_end", "lag", "caught_up")
BROKERS = ("broker", "host", "port", "rack", "controller", "fenced", "answers")
PARTITIONS = ("partition", "problem")
FEATURES = ("feature", "finalized", "supported")
TABLES = {"controllers": CONTROLLERS, "brokers": BROKERS, "problems": PARTITIONS, "features": FEATURES}
PROBLEMS = {"without_leader": "offline", "under_min_isr": "under min ISR", "under_replicated": "under-replicated"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("-v", "--verbose", action="store_true", help="show the features and their levels too")
    add_watch(parser)
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the cluster, repeatedly with `--watch`."""
    with admin(options, request_timeout_ms=LOOK_MS) as client:
        return repeat(options, lambda: _show(client, options))


def _show(client: Admin, options: argparse.Namespace) -> int:
    """Print the cluster; return 1 if a broker or the controller does not answer."""
    away = client.away()
    wrong = list(away.values())
    try:
        with waiting(options.command, CONTROLLER):
            quorum = describe_quorum(client)
    except CommandError as error:
        quorum = {"leader": None, "epoch": None, "nodes": []}  # the metadata may be out of date
        wrong.append(str(error))
    cluster = _describe(client, quorum, away)
    if options.json:
        show_json(cluster)
    else:
        _print(cluster, verbose=options.verbose)
    return complain_of(options.command, wrong)


def _print(cluster: dict[str, Any], verbose: bool) -> None:
    facts = {name: value for name, value in cluster.items() if not isinstance(value, list)}
    wrong = {name for name in PROBLEMS if facts[name] != 0}
    if facts["controller"] is None:
        wrong.add("controller")
        facts |= dict.fromkeys(("controller", "epoch", *PROBLEMS), "not known")
    print_facts(facts, wrong=wrong)
    for name, columns in TABLES.items():
        rows = SHOWN_AS[name](cluster[name]) if name in SHOWN_AS else cluster[name]
        if rows and (verbose or name != "features"):
            sys.stdout.write("\n")
            print_table(columns, rows, wrong=WRONG.get(name, lambda _: False))


def _ranges(problems: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return one row for consecutive partitions with the same problem, as "t-0 to t-49"."""
    rows: list[dict[str, str]] = []
    last = ("", -1, "")
    for one in problems:
        topic, _, index = one["partition"].rpartition("-")
        if last == (topic, int(index) - 1, one["problem"]):
            first = rows[-1]["partition"].partition(" to ")[0]
            rows[-1] = {**one, "partition": f"{first} to {topic}-{index}"}
        else:
            rows.append(one)
        last = (topic, int(index), one["problem"])
    return rows


WRONG: dict[str, Callable[[Row], bool]] = {
    "brokers": lambda broker: broker["fenced"] or broker["answers"] is False,
    "problems": lambda _: True,
}
SHOWN_AS = {"controllers": lambda nodes: list(map(with_age, nodes)), "problems": _ranges}


def _describe(client: Admin, quorum: dict[str, Any], away: Container[int]) -> dict[str, Any]:
    about = client.describe_cluster()
    topics = choose(client, [])
    least = topics_values(client, [topic["name"] for topic in topics], "min.insync.replicas")
    listed = client.listed()
    wrong = {
        "without_leader": without_leader(topics),
        "under_min_isr": under_min_isr(topics, {topic: int(value) for topic, value in least.items()}),
        "under_replicated": under_replicated(topics),
    }
    problems: dict[str, str] = {}
    for problem, partitions in wrong.items():
        for partition in partitions:
            problems.setdefault(partition, PROBLEMS[problem])
    return {
        "id": about["cluster_id"],
        "controller": quorum["leader"],
        "epoch": quorum["epoch"],
        "api_level": ".".join(map(str, client._manager.broker_version)),
        "topics": sum(not topic["is_internal"] for topic in topics),
        "internal_topics": sum(topic["is_internal"] for topic in topics),
        "partitions": sum(len(topic["partitions"]) for topic in topics),
        **{count: None if quorum["leader"] is None else len(found) for count, found in wrong.items()},
        "controllers": [{"controller": node["node"], **node} for node in quorum["nodes"]],
        "brokers": [
            {
                "broker": broker["broker_id"],
                "host": broker["host"],
                "port": broker["port"],
                "rack": broker["rack"],
                "controller": broker["broker_id"] == quorum["leader"],
                "fenced": bool(broker.get("is_fenced")),
                "answers": broker["broker_id"] not in away if broker["broker_id"] in listed else None,
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
