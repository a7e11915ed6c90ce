"""Say whether the cluster is well: every check that fails is named, and the exit status is 1.

Checked are: every broker answers; a controller does, and every voter follows it; none of the brokers is fenced; every
partition has a leader; all replicas are in sync; no log directory has failed or is full, and every replica has its log
in one; every broker coordinates groups. Nothing is written or created.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import LOOK_MS, add_broker_options, admin, seconds
from barnabas.commands._groups import list_groups
from barnabas.commands._output import CommandError, add_json, count_of, explain, print_table, red, show_json, some
from barnabas.commands._partitions import under_replicated, without_leader, without_log
from barnabas.commands._topics import choose
from barnabas.commands._watch import TIMESTAMP
from barnabas.commands.cluster.quorum import describe as describe_quorum
from barnabas.commands.cluster.quorum import silent_voters

if TYPE_CHECKING:
    from barnabas.commands._admin import Admin

EXAMPLES = """
  barnabas health
  barnabas health --watch                                      a line whenever it changes
  barnabas health --exit-when-healthy --give-up 60             wait for a broker that is starting
  barnabas health --json | jq .healthy
"""
INTERVAL_S = 1.0
SENTENCES = ("reachable", "controller", "coordinator")
"""The checks of which each problem is a sentence; those of the others are names."""
ROOM_BYTES = 2 << 20
"""With less, a broker refuses topics, and records that do not fit."""
NEW_LEADER_S = 1.0
"""How long voters have to fetch from a leader that was elected just now."""

Check = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, named as rpk's users know them."""
    parser.add_argument("-w", "--watch", action="store_true", help="go on, and print whenever something changes")
    parser.add_argument(
        "-e", "--exit-when-healthy", action="store_true", help="wait until the cluster is well, then end with 0"
    )
    parser.add_argument("--give-up", type=seconds, metavar="SECONDS", help="wait no longer than this, end with 1")
    parser.add_argument(
        "--interval", type=seconds, default=INTERVAL_S, metavar="SECONDS", help="between checks (default: %(default)s)"
    )
    add_json(parser)
    add_broker_options(parser)


def run(options: argparse.Namespace) -> int:
    """Check once, or until interrupted, healthy, or out of time."""
    deadline = None if options.give_up is None else time.monotonic() + options.give_up
    last: list[Check] | None = None
    try:
        while True:
            checks = examine(options)
            healthy = all(check["ok"] for check in checks)
            if checks != last:
                _print(checks, healthy, options)
                last = checks
            if not (options.watch or options.exit_when_healthy) or (healthy and options.exit_when_healthy):
                return 0 if healthy else 1
            left_s = options.interval if deadline is None else deadline - time.monotonic()
            if left_s <= 0:
                return 0 if healthy else 1
            time.sleep(min(options.interval, left_s))  # the last check is at the deadline
    except KeyboardInterrupt:
        return 130 if options.exit_when_healthy else 0


def examine(options: argparse.Namespace) -> list[Check]:
    """Return every check with its outcome; those that need a broker are left out if none answers."""
    try:
        with admin(options, request_timeout_ms=LOOK_MS) as client:
            return [_check(name, found, fine) for name, found, fine in _checks(client)]
    except CommandError as error:
        if error.status != 1:
            raise
        return [_check("reachable", [str(error)], "")]
    except Exception as error:
        explained = explain(error)
        if explained is None:
            raise
        return [_check("reachable", [explained], "")]


def _check(name: str, found: list[str], fine: str) -> Check:
    """Return a check: `problems` has all that was found, `detail` a few of them, for people."""
    detail = "; ".join(found) if name in SENTENCES else some(found)
    return {"check": name, "ok": not found, "detail": detail or fine, "problems": found}


def _checks(client: Admin) -> Iterator[tuple[str, list[str], str]]:
    """Yield each check's name, what is wrong, and what to print if nothing is."""
    cluster = client.describe_cluster()
    brokers = {broker["broker_id"]: broker for broker in cluster["brokers"]}
    away = client.away()
    yield "reachable", list(away.values()), f"cluster {cluster['cluster_id']}, {count_of(len(brokers), 'broker')}"
    answering = client.answering(away)
    stale: list[str] = []
    try:
        quorum = describe_quorum(client)
        if silent_voters(quorum):
            time.sleep(NEW_LEADER_S)
            quorum = describe_quorum(client)
    except CommandError as error:
        stale = ["not known: no controller answers, and the metadata may be out of date"]
        yield "controller", [str(error)], ""
    else:
        yield "controller", silent_voters(quorum), f"node {quorum['leader']}"
    fenced = [f"broker {number}" for number, broker in brokers.items() if broker.get("is_fenced")]
    yield "fenced", fenced or stale, "none"
    topics = choose(client, [])
    count = count_of(sum(len(topic["partitions"]) for topic in topics), "partition")
    yield "leaders", without_leader(topics) or stale, f"{count} of {count_of(len(topics), 'topic')}, each has one"
    yield "in sync", under_replicated(topics) or stale, "all replicas"
    described = client.describe_log_dirs(brokers=answering)
    yield "log dirs", _wrong_directories(described), "none has failed or is full"
    yield "served", without_log(topics, described), "all replicas"
    try:
        groups = list_groups(client, [number for number in answering if f"broker {number}" not in fenced])
    except CommandError as error:
        yield "coordinator", [str(error)], ""
    else:
        yield "coordinator", [], count_of(len(groups), "group")


def _wrong_directories(described: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the log directories that have failed, and those without room."""
    wrong = []
    for broker in described:
        for one in broker["log_dirs"]:
            room = one.get("usable_bytes", -1)  # -1: the broker does not say
            if one["error_code"]:
                wrong.append(one["log_dir"])
            elif 0 <= room < ROOM_BYTES:
                wrong.append(f"{one['log_dir']} on broker {broker['broker']} has less than {ROOM_BYTES >> 20} MiB free")
    return wrong


def _print(checks: list[Check], healthy: bool, options: argparse.Namespace) -> None:
    if options.json:
        show_json({"healthy": healthy, "checks": checks})
    else:
        if options.watch or options.exit_when_healthy:
            sys.stdout.write(time.strftime(TIMESTAMP))
        sys.stdout.write("healthy: yes\n" if healthy else red("healthy: no") + "\n")
        print_table(("check", "ok", "detail"), checks, wrong=lambda check: not check["ok"])
    sys.stdout.flush()
