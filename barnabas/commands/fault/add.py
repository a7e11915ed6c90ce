"""Add a rule on all brokers: requests of an API that fulfil its conditions get an error, a delay, or no response.

One of several names or numbers is enough.

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
  barnabas fault add Produce --error REQUEST_TIMED_OUT --when after       the records are stored all the same
  barnabas fault add JoinGroup,SyncGroup --group workers --hold before
  barnabas fault add Heartbeat --group workers --error REBALANCE_IN_PROGRESS --probability 0.1 --seed 7
"""
_MOMENTS = ("before", "after")
_CONDITIONS = (
    "api",
    "topic",
    "partition",
    "client_id",
    "group",
    "transactional_id",
    "broker",
    "sender",
    "nth",
    "count",
    "probability",
    "seed",
)
_ACTIONS = ("error", "delay_ms", "hold", "throttle_ms", "disconnect", "corrupt", "when")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("api", type=_texts, metavar="API[,...]", help="the names of requests, as Produce or JoinGroup")
    which = parser.add_argument_group("conditions")
    which.add_argument(
        "--topic", type=_texts, metavar="NAME[,...]", help="requests that name a topic; NAME* is a prefix"
    )
    which.add_argument("--partition", type=_numbers, metavar="N[,...]", help="requests for a partition")
    which.add_argument("--client-id", metavar="ID", help="requests of the client")
    which.add_argument("--group", metavar="NAME", help="requests for the group")
    which.add_argument("--transactional-id", metavar="ID", help="requests for the transactional id")
    which.add_argument("--broker", type=_numbers, metavar="ID[,...]", help="requests to the broker with the id")
    which.add_argument("--sender", choices=("clients", "brokers", "any"), help="requests of these (default: clients)")
    which.add_argument("--nth", type=int, metavar="N", help="begin with the n-th such request")
    which.add_argument("--count", type=int, metavar="N", help="end after so many requests")
    which.add_argument("--probability", type=float, metavar="P", help="apply to each with this probability, 0 to 1")
    which.add_argument("--seed", type=int, metavar="N", help="the seed of the draws")
    what = parser.add_argument_group("actions, one of them").add_mutually_exclusive_group(required=True)
    what.add_argument("--error", metavar="NAME", help="answer with this error")
    what.add_argument("--delay-ms", type=int, metavar="MS", help="handle the request later")
    what.add_argument("--hold", choices=_MOMENTS, help="hold the request, or its response, until `fault release`")
    what.add_argument("--throttle-ms", type=int, metavar="MS", help="have the client wait, as for a quota")
    what.add_argument("--disconnect", choices=_MOMENTS, help="close the connection before or after the request's work")
    what.add_argument(
        "--corrupt", choices=("body", "records", "correlation_id", "truncate"), help="damage the response"
    )
    parser.add_argument(
        "--when",
        choices=_MOMENTS,
        help="apply --error or --delay-ms before or after the request's work (default: before)",
    )
    add_control_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status."""
    rule = {**_given(options, _CONDITIONS), "action": _given(options, _ACTIONS)}
    brokers = controls(options)
    for broker in brokers:
        call(broker, "POST", "/v1/faults", rule)
    print(f"added to {amount_of(len(brokers), 'broker')}")
    return 0


def _texts(text: str) -> str | list[str]:
    parts = [part.strip() for part in text.split(",")]
    return parts if len(parts) > 1 else parts[0]


def _numbers(text: str) -> int | list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write numbers, as 0,1,2") from None
    return numbers if len(numbers) > 1 else numbers[0]


def _given(options: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(options, name)) is not None}
