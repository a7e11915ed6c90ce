"""Remove quotas of a user, a client id, both together, or an address: the named ones, or all that it has.

A less specific quota, such as a default, may apply then: `barnabas quota describe` shows it.
"""

import argparse

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import Report
from barnabas.commands._quotas import (
    add_entity_options,
    alter_quotas,
    check_quota,
    describe_quotas,
    entity,
    value_text,
)
from barnabas.commands._rights import check_cluster
from barnabas.commands._unserved import controller_awaited

EXAMPLES = """
  barnabas quota remove --user alice producer_byte_rate
  barnabas quota remove --user alice --client-id app --dry-run        all that it has
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_entity_options(parser)
    parser.add_argument("quota", nargs="*", metavar="QUOTA", help="a quota (default: all of the entity)")
    parser.add_argument("-d", "--dry-run", action="store_true", help="only print what would be removed")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Remove the quotas; return 1 if one of them is not set, or the entity has none."""
    of = entity(options)
    for name in options.quota:
        check_quota(name, of)
    report = Report(options)
    with admin(options) as client, controller_awaited(options):
        check_cluster(client, "ALTER_CONFIGS")
        values = describe_quotas(client, of, strict=True).get(of, {})
        names = dict.fromkeys(options.quota or values)
        existing = [name for name in names if name in values]
        problem = None
        if existing:
            problem = alter_quotas(client, of, dict.fromkeys(existing), validate_only=options.dry_run)
    if problem is not None:
        report.failed(str(of), problem)
        return report.end()
    if not names:
        report.failed(str(of), "it has no quotas; `barnabas quota list` shows those that exist")
    for name in names:
        if name in values:
            did = "would remove" if options.dry_run else "removed"
            report.done(did, f"{name}={value_text(values[name])} of {of}", quota=name, **of.row)
        else:
            report.failed(str(of), f"{name} is not set")
    return report.end()
