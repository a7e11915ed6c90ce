"""Add a rule on all brokers: requests of an API that fulfil its conditions get an error, a delay, or no response.

Each broker counts for itself. The rule ends after --count requests, with `barnabas fault clear`, or with the broker.
"""

from __future__ import annotations

import argparse
from typing import Any

from barnabas.commands._controls import add_control_options, call, controls
from barnabas.commands._output import amount_of

EXAMPLES = """
  barnabas fault add Produce --topic orders --error NOT_LEADER_OR_FOLLOWER --count 3
  barnabas fault add Fetch --client-id billing --delay-ms 500
  barnabas fault add Produce --disconnect after --count 1                 a lost acknowledgement
  barnabas fault add Heartbeat --group workers --error REBALANCE_IN_PROGRESS --probability 0.1 --seed 7
"""
_MOMENTS = ("before", "after")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("api", metavar="API", help="the name of the requests, as Produce or JoinGroup")
    which = parser.add_argument_group("conditions")
    which.add_argument("--topic", metavar="NAME", help="requests that name the topic; NAME* is a prefix")
    which.add_argument("--partition", type=int, metavar="N", help="requests for the partition")
    which.add_argument("--client-id", metavar="ID", help="requests of the client")
    which.add_argument("--group", metavar="NAME", help="requests for the group")
    which.add_argument("--transactional-id", metavar="ID", help="requests for the transactional id")
    which.add_argument("--nth", type=int, metavar="N", help="begin with the n-th such request")
    which.add_argument("--count", type=int, metavar="N", help="end after so many requests")
    which.add_argument("--probability", type=float, metavar="P", help="apply to each with this probability, 0 to 1")
    which.add_argument("--seed", type=int, metavar="N", help="the seed of the draws")
    what = parser.add_argument_group("actions, one of them").add_mutually_exclusive_group(required=True)
    what.add_argument("--error", metavar="NAME", help="answer with this error")
    what.add_argument("--delay-ms", type=int, metavar="MS", help="handle the request later")
    what.add_argument("--throttle-ms", type=int, metavar="MS", help="have the client wait, as for a quota")
    what.add_argument("--disconnect", choices=_MOMENTS, help="close the connection before or after the request's work")
    what.add_argument(
        "--corrupt", choices=("body", "records", "correlation_id", "truncate"), help="damage the response"
    )
    add_control_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status."""
    names = ("topic", "partition", "client_id", "group", "transactional_id", "nth", "count", "probability", "seed")
    actions = ("error", "delay_ms", "throttle_ms", "disconnect", "corrupt")
    rule = {"api": options.api, **_given(options, names), "action": _given(options, actions)}
    brokers = controls(options)
    for broker in brokers:
        call(broker, "POST", "/v1/faults", rule)
    print(f"added to {amount_of(len(brokers), 'broker')}")
    return 0


def _given(options: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(options, name)) is not None}
