"""List quotas: all, or those of users, client ids and addresses, also in combination with others."""

import argparse

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import show
from barnabas.commands._quotas import add_entity_options, describe_quotas, named, value_text

EXAMPLES = """
  barnabas quota list
  barnabas quota list --user alice                    of this user, with and without client ids
  barnabas quota list --client-id-defaults --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_entity_options(parser)
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print a row for each quota."""
    wanted = named(options)
    with admin(options) as client:
        found = describe_quotas(client, wanted)
    rows = [
        {"entity": of.row["entity"] if options.json else str(of), "quota": name, "value": _value(options, value)}
        for of, values in found.items()
        for name, value in values.items()
    ]
    show(options, ("entity", "quota", "value"), rows)
    return 0


def _value(options: argparse.Namespace, value: float) -> float | str:
    return value if options.json else value_text(value)
