"""List the settings of a topic, broker or group with their sources; without KIND/NAME, the resources with settings."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from barnabas.commands._client import add_common_options, admin, send
from barnabas.commands._configs import KINDS, describe_configs, resource
from barnabas.commands._output import CommandError, explain_code, show

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

EXAMPLES = """
  barnabas config list                          resources with settings of their own
  barnabas config list topic/orders             the settings of the topic
  barnabas config list topic/orders --all       defaults too
  barnabas config list brokers                  the default of all brokers
  barnabas config list broker/1 --all --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("resource", nargs="?", type=resource, metavar="KIND/NAME")
    parser.add_argument("-a", "--all", action="store_true", help="list defaults too")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the settings, or the resources."""
    with admin(options) as client:
        if options.resource is None:
            show(options, ("resource", "settings"), _resources(client, options.all))
            return 0
        settings = describe_configs(client, options.resource, documentation=options.json)
    rows = [setting._asdict() for setting in settings if options.all or setting.is_own]
    show(options, ("name", "value", "source", "type", "read_only")[: 5 if options.all else 3], rows)
    return 0


def _resources(client: KafkaAdminClient, everything: bool) -> list[dict[str, Any]]:
    """Return the resources with the number of their own settings; with `everything`, those without any too."""
    from kafka.protocol.admin import ListConfigResourcesRequest

    response = send(client, ListConfigResourcesRequest(resource_types=[]))
    if response.error_code:
        raise CommandError(explain_code(response.error_code))
    names = {number: kind for kind, number in KINDS.items() if kind != "brokers"}
    found = {"brokers"} | {
        f"{names[one.resource_type]}/{one.resource_name}"
        for one in response.config_resources
        if one.resource_type in names and one.resource_name and names[one.resource_type] != "broker-logger"
    }
    rows = [
        {"resource": one, "settings": sum(setting.is_own for setting in describe_configs(client, one))}
        for one in sorted(found)
    ]
    return [row for row in rows if everything or row["settings"]]
