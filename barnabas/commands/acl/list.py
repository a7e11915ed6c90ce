"""List access control entries: all, those on resources, or those of principals."""

import argparse

from barnabas.commands._acls import (
    ANY_ACL,
    COLUMNS,
    PATTERNS,
    add_resource_options,
    describe_acls,
    principal,
    resources,
)
from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import show

EXAMPLES = """
  barnabas acl list
  barnabas acl list --topic orders                        entries for exactly this name
  barnabas acl list --topic orders --pattern match        prefixes and * that cover it, too
  barnabas acl list --principal User:alice --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_resource_options(parser, tuple(PATTERNS))
    parser.add_argument(
        "--principal", type=principal, action="append", metavar="TYPE:NAME", help="only its entries; repeatable"
    )
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the entries."""
    filters = [
        ANY_ACL._replace(type=resource.type, name=resource.name, pattern=options.pattern)
        for resource in resources(options)
    ]
    with admin(options) as client:
        found = {
            acl
            for one in filters or [ANY_ACL]
            for who in options.principal or [None]
            for acl in describe_acls(client, one._replace(principal=who))
        }
    show(options, COLUMNS, [acl.row for acl in sorted(found)])
    return 0
