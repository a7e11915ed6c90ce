"""Wait until rules have been applied to a number of requests, on all brokers together."""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack

from barnabas.commands._controls import call
from barnabas.commands._fault_rules import InstalledRule, add_rule_arguments, installed_rules
from barnabas.commands._offsets import duration_ms
from barnabas.commands._output import CommandError, amount_of

EXAMPLES = """
  barnabas fault wait --hits 3
  barnabas fault wait 1 --timeout 1m
"""
_TIMEOUT = "10s"
_ANSWER_S = 5.0
"""The time that a broker may take to answer that a wait was in vain."""
_LONGEST_S = 600.0
"""The longest wait that a broker accepts; a longer one is several requests."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--hits", type=int, default=1, metavar="N", help="the number of requests (default: 1)")
    parser.add_argument(
        "--timeout", type=duration_ms, default=_TIMEOUT, metavar="DURATION", help=f"such as 90s (default: {_TIMEOUT})"
    )
    add_rule_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status."""
    rules = installed_rules(options)
    if not rules:
        raise CommandError("there is no rule to wait for; `barnabas fault add` adds one")
    deadline = time.monotonic() + options.timeout / 1000
    while (hits := sum(seen := [call(one.broker, "GET", one.path)["hits"] for one in rules])) < options.hits:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            expected = f"{amount_of(options.hits, 'hit')} expected within {options.timeout / 1000:g} s"
            raise CommandError(f"{expected}, {hits} seen; `barnabas trace` shows the last requests")
        _wait_for_one(rules, seen, min(left_s, _LONGEST_S))
    print(amount_of(hits, "hit"))
    return 0


def _wait_for_one(rules: list[InstalledRule], seen: list[int], left_s: float) -> None:
    """Return after the next hit of any rule, or after `left_s`; CommandError if a broker refuses."""
    from barnabas.testing import ClusterError
    from barnabas.testing._control import first_ready

    with ExitStack() as calls:
        waiting = []
        try:
            for one, hits in zip(rules, seen, strict=True):
                body = {"hits": hits + 1, "timeout_ms": round(left_s * 1000)}
                waiting.append(one.broker.begin("POST", f"{one.path}/wait", body))
                calls.callback(waiting[-1].cancel)
            first = first_ready(waiting, left_s + _ANSWER_S)
            if first is not None:
                first.result()
        except ClusterError as error:
            raise CommandError(str(error)) from error
