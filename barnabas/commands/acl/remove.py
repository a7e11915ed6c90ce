"""Remove access control entries: all of resources, or those with the given principals, hosts and operations.

With principals, exactly the entries that `acl add` would add with the same options are removed: without --operation,
entries of operation ALL. This cannot be undone: use `--dry-run` first.
"""

import argparse

from barnabas.commands._acls import (
    ANY_ACL,
    PATTERNS,
    AclBinding,
    add_entry_options,
    add_resource_options,
    delete_acls,
    describe_acls,
    entries,
    resources,
)
from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import Report, WrongCall
from barnabas.commands._rights import check_cluster
from barnabas.commands._unserved import controller_awaited

EXAMPLES = """
  barnabas acl remove --allow-principal User:alice --operation Read --topic orders
  barnabas acl remove --topic orders --dry-run                     all entries for this name
  barnabas acl remove --topic orders- --pattern prefixed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_resource_options(parser, tuple(PATTERNS))
    add_entry_options(parser)
    parser.add_argument("-d", "--dry-run", action="store_true", help="only print what would be removed")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Remove the entries; return 1 if a filter matches none, or fails."""
    filters = _filters(options)
    report = Report(options)
    with admin(options) as client, controller_awaited(options):
        if options.dry_run:
            check_cluster(client, "ALTER")
        results = [describe_acls(client, one) for one in filters] if options.dry_run else delete_acls(client, filters)
    did = "would remove" if options.dry_run else "removed"
    removed: set[AclBinding] = set()
    for wanted, found in zip(filters, results, strict=True):
        if isinstance(found, str):
            report.failed(_text(wanted), found)
        elif not found:
            report.failed(_text(wanted), "no entry matches; `barnabas acl list` shows those that exist")
        for acl in () if isinstance(found, str) else found:
            if acl not in removed:
                removed.add(acl)
                report.done(did, str(acl), **acl.row)
    return report.end()


def _filters(options: argparse.Namespace) -> list[AclBinding]:
    """Return the filters: of entries, or of all entries of the named resources."""
    named = entries(options)
    if options.allow_principal or options.deny_principal:
        return named
    if options.operation or options.producer or options.consumer:
        raise WrongCall(
            "--operation, --producer and --consumer need a principal: --allow-principal or --deny-principal"
        )
    return [ANY_ACL._replace(type=one.type, name=one.name, pattern=options.pattern) for one in resources(options)]


def _text(wanted: AclBinding) -> str:
    return str(wanted) if wanted.principal else f"{wanted.type}/{wanted.name} ({wanted.pattern})"
