"""Show the quotas that apply to a client or an address, and where each is set.

A client is a user with a client id; without one of the two, it is a client that has no quota under that name.
"""

import argparse

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import show
from barnabas.commands._quotas import (
    ADDRESS_QUOTAS,
    CLIENT_ID,
    CLIENT_QUOTAS,
    IP,
    USER,
    Entity,
    add_entity_options,
    describe_quotas,
    entities_of_client,
    entity,
    value_text,
)

EXAMPLES = """
  barnabas quota describe --user alice --client-id app
  barnabas quota describe --ip 10.0.0.7
  barnabas quota describe --user-defaults             a user without quotas of its own
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_entity_options(parser)
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print a row for each kind of quota, also for those that nothing limits."""
    wanted = entity(options)
    names = dict(wanted.parts)
    with admin(options) as client:
        quotas = describe_quotas(client)
    if IP in names:
        candidates = [Entity(((IP, name),)) for name in dict.fromkeys((names[IP], None))]
    else:
        candidates = list(entities_of_client(names.get(USER), names.get(CLIENT_ID)))
    rows = []
    for name in ADDRESS_QUOTAS if IP in names else CLIENT_QUOTAS:
        of = next((of for of in candidates if name in quotas.get(of, {})), None)
        value = None if of is None else quotas[of][name]
        if options.json:
            rows.append({"quota": name, "value": value, "set_on": None if of is None else of.row["entity"]})
        else:
            shown = None if value is None else value_text(value)
            rows.append({"quota": name, "value": shown, "set_on": None if of is None else str(of)})
    show(options, ("quota", "value", "set_on"), rows)
    return 0
