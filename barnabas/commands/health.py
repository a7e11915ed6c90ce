"""Check the health of the cluster: print every check; the exit status is 1 if any fails.

The checks: every broker answers; a controller answers, and every voter follows it; no broker is fenced; every partition
has a leader; all replicas are in sync; no log directory has failed or is full, and every replica has its log in one;
every broker coordinates groups. Nothing is written or created.

With --json each check has its name, `ok`, `detail` (a sentence), `problems`, `known` (false if the metadata may be out
of date, as no controller answers), `nodes` (the ids of the brokers or controllers with a problem) and `facts` (numbers
of brokers, partitions, topics and groups, the id of the controller).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.commands import HungUp
from barnabas.commands._client import LOOK_MS, add_common_options, admin, not_listening, seconds
from barnabas.commands._groups import list_groups, not_listed
from barnabas.commands._output import (
    CommandError,
    RefusedConnection,
    WrongCall,
    amount_of,
    explain,
    print_table,
    red,
    show_json,
    some,
)
from barnabas.commands._partitions import under_replicated, without_leader, without_log
from barnabas.commands._progress import waiting
from barnabas.commands._rights import needs
from barnabas.commands._topics import choose
from barnabas.commands._watch import TIMESTAMP, sleep_while_read
from barnabas.commands.cluster.quorum import CONTROLLER, is_silent, silent_voters
from barnabas.commands.cluster.quorum import describe as describe_quorum

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
"""The checks whose problems are sentences; those of the others are names."""
ROOM_BYTES = 2 << 20
"""A broker with less free space refuses new topics, and records that do not fit."""
NEW_LEADER_S = 1.0
"""How long voters may take to fetch from a newly elected leader."""

Check = dict[str, Any]


class HealthProblem(NamedTuple):
    """The result of a check: the problems, the text if there are none, and values for JSON."""

    name: str
    problems: list[str]
    fine: str = ""
    nodes: Sequence[int] = ()
    facts: Mapping[str, Any] = {}
    known: bool = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, named as rpk's users know them."""
    parser.add_argument("-w", "--watch", action="store_true", help="keep checking, and print each change")
    parser.add_argument(
        "-e", "--exit-when-healthy", action="store_true", help="wait until the cluster is healthy, then exit with 0"
    )
    parser.add_argument("--give-up", type=seconds, metavar="SECONDS", help="wait no longer than this, then exit with 1")
    parser.add_argument(
        "--interval", type=seconds, default=INTERVAL_S, metavar="SECONDS", help="between checks (default: %(default)s)"
    )
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Check once, or until interrupted, healthy, or out of time; return the exit status."""
    if options.give_up is not None and not (options.exit_when_healthy or options.watch):
        raise WrongCall("--give-up requires --exit-when-healthy or --watch")
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
            sleep_while_read(min(options.interval, left_s))  # the last check is at the deadline
    except KeyboardInterrupt as end:
        if options.exit_when_healthy or isinstance(end, HungUp):
            raise
        return 0


def examine(options: argparse.Namespace) -> list[Check]:
    """Return every check with its result; those that need a broker are omitted if none answers."""
    try:
        with admin(options, request_timeout_ms=LOOK_MS) as client:
            return [_check(found) for found in _checks(client, options)]
    except CommandError as error:
        repeats = options.watch or options.exit_when_healthy
        if error.status != 1 or (repeats and isinstance(error, RefusedConnection)):
            raise
        return [_check(HealthProblem("reachable", [str(error)]))]
    except Exception as error:
        explained = explain(error)
        if explained is None:
            raise
        return [_check(HealthProblem("reachable", [explained]))]


def _check(found: HealthProblem) -> Check:
    """Return a check: `problems` has all problems, `detail` the first few."""
    detail = "; ".join(found.problems) if found.name in SENTENCES else some(found.problems)
    return {
        "check": found.name,
        "ok": not found.problems,
        "detail": detail or found.fine,
        "problems": found.problems,
        "known": found.known,
        "nodes": sorted(found.nodes),
        "facts": dict(found.facts),
    }


def _checks(client: Admin, options: argparse.Namespace) -> Iterator[HealthProblem]:
    """Yield the result of each check."""
    from kafka.errors import ClusterAuthorizationFailedError

    cluster = client.describe_cluster()
    brokers = {broker["broker_id"]: broker for broker in cluster["brokers"]}
    fenced = [number for number, broker in brokers.items() if broker.get("is_fenced")]
    away = client.away()
    # Fenced brokers are not in Metadata, so `away` has none of them.
    unreachable = {number: _why_fenced(brokers[number], options.timeout) for number in fenced} | away
    fine = f"cluster {cluster['cluster_id']}, {amount_of(len(brokers), 'broker')}"
    yield HealthProblem("reachable", list(unreachable.values()), fine, list(unreachable), {"brokers": len(brokers)})
    answering = client.answering(away)
    stale: list[str] = []
    hidden: list[str] = []
    try:
        with waiting(options.command, CONTROLLER):
            quorum = describe_quorum(client)
            if silent_voters(quorum):
                time.sleep(NEW_LEADER_S)
                quorum = describe_quorum(client)
    except CommandError as error:
        stale = ["unknown: no controller answers, and the metadata may be out of date"]
        yield HealthProblem("controller", [str(error)], known=False)
    except ClusterAuthorizationFailedError:
        hidden = [f"unknown: {needs(client.config, 'DESCRIBE', 'cluster')}"]
        yield HealthProblem("controller", hidden, known=False)
    else:
        leader = quorum["leader"]
        silent = [node["node"] for node in quorum["nodes"] if is_silent(node)]
        yield HealthProblem("controller", silent_voters(quorum), f"node {leader}", silent, {"node": leader})
    known = not stale
    yield HealthProblem("fenced", [f"broker {number}" for number in fenced] or stale, "none", fenced, known=known)
    topics = choose(client, [])
    counts = {"partitions": sum(len(topic["partitions"]) for topic in topics), "topics": len(topics)}
    fine = (
        f"every partition has one: {amount_of(counts['partitions'], 'partition')} of {amount_of(len(topics), 'topic')}"
    )
    fine = fine if topics else "there are no topics"
    yield HealthProblem("leaders", without_leader(topics) or stale, fine, facts=counts, known=known)
    yield HealthProblem("in sync", under_replicated(topics) or stale, "all replicas", known=known)
    described = client.describe_log_dirs(brokers=answering)
    wrong = _wrong_directories(described)
    failed = {number for number, _ in wrong}
    directories = [directory for _, directory in wrong]
    unserved = [] if hidden else without_log(topics, described)
    known = not hidden
    yield HealthProblem("log dirs", directories or hidden, "none has failed or is full", list(failed), known=known)
    yield HealthProblem("served", unserved or hidden, "all replicas", known=known)
    try:
        groups = list_groups(client, [number for number in answering if number not in fenced])
    except CommandError as error:
        yield HealthProblem("coordinator", [str(error)], known=False)
    else:
        missing = not_listed(topics, away)
        facts = {"groups": None if missing else len(groups)}
        fine = amount_of(len(groups), "group")
        yield HealthProblem("coordinator", [missing] if missing else [], fine, facts=facts, known=not missing)


def _why_fenced(broker: Mapping[str, Any], timeout_s: float) -> str:
    """Return why a fenced broker is not reachable, as far as known."""
    address = f"{broker['host']}:{broker['port']}"
    if why := not_listening(address, timeout_s):
        return f"broker {broker['broker_id']} cannot be reached at {address} ({why})"
    return f"broker {broker['broker_id']} at {address} is fenced: the controller receives no heartbeat from it"


def _wrong_directories(described: Iterable[Mapping[str, Any]]) -> list[tuple[int, str]]:
    """Return the failed and the full log directories, each with its broker."""
    wrong = []
    for broker in described:
        for one in broker["log_dirs"]:
            room = one.get("usable_bytes", -1)  # -1: unknown
            if one["error_code"]:
                wrong.append((broker["broker"], one["log_dir"]))
            elif 0 <= room < ROOM_BYTES:
                why = f"{one['log_dir']} on broker {broker['broker']} has less than {ROOM_BYTES >> 20} MiB free"
                wrong.append((broker["broker"], why))
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
