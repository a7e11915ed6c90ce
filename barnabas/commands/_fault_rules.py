"""Rules of faults on brokers that run with the control API: the choice of those that a command acts on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.commands._controls import add_control_options, call, controls
from barnabas.commands._output import CommandError

if TYPE_CHECKING:
    from barnabas.testing._control import ControlClient


class InstalledRule(NamedTuple):
    """A rule of a broker."""

    broker: ControlClient
    rule: dict[str, Any]

    @property
    def path(self) -> str:
        """Return the path of the rule in the control API."""
        return f"/v1/faults/{self.rule['id']}"


def add_rule_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the ids of rules, and the options of the control API."""
    parser.add_argument(
        "rules",
        nargs="*",
        type=int,
        metavar="RULE",
        help="ids, as `barnabas fault list` shows them; default: all rules",
    )
    add_control_options(parser)


def installed_rules(options: argparse.Namespace) -> list[InstalledRule]:
    """Return the rules that the command line names, on all brokers; CommandError if an id is at none."""
    found = [
        InstalledRule(broker, rule)
        for broker in controls(options)
        for rule in call(broker, "GET", "/v1/faults")["faults"]
    ]
    known = sorted({one.rule["id"] for one in found})
    for rule_id in options.rules:
        if rule_id not in known:
            raise CommandError(f"there is no rule {rule_id}; there are: {', '.join(map(str, known)) or 'none'}")
    return [one for one in found if not options.rules or one.rule["id"] in options.rules]
