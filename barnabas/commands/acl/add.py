"""Add access control entries: allow or deny principals operations on resources.

A denied operation is denied whatever else is allowed. Entries that exist already stay as they are.
"""

import argparse
from ipaddress import ip_address

from barnabas.commands._acls import (
    ANY_ACL,
    ANY_HOST,
    add_entry_options,
    add_resource_options,
    create_acls,
    describe_acls,
    entries,
    why_without_effect,
)
from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import Report, WrongCall, complain
from barnabas.commands._rights import check_cluster
from barnabas.commands._unserved import controller_awaited

EXAMPLES = """
  barnabas acl add --allow-principal User:alice --operation Read --topic orders
  barnabas acl add --allow-principal User:bob --producer --topic orders- --pattern prefixed
  barnabas acl add --allow-principal User:carol --consumer --topic orders --group readers
  barnabas acl add --deny-principal 'User:*' --deny-host 10.0.0.7 --topic '*' --dry-run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_resource_options(parser, ("literal", "prefixed"))
    add_entry_options(parser)
    parser.add_argument("-d", "--dry-run", action="store_true", help="only print what would be added")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Add each entry; return 1 if one cannot be added."""
    if not (options.allow_principal or options.deny_principal):
        raise WrongCall("name a principal: --allow-principal or --deny-principal")
    for host in (*options.allow_host, *options.deny_host):
        _check_host(host)
    acls = entries(options)
    for warning in dict.fromkeys(filter(None, map(why_without_effect, acls))):
        complain(options.command, warning)
    report = Report(options)
    with admin(options) as client, controller_awaited(options):
        check_cluster(client, "ALTER")
        named = dict.fromkeys(ANY_ACL._replace(type=acl.type, name=acl.name, pattern=acl.pattern) for acl in acls)
        existing = {acl for one in named for acl in describe_acls(client, one)}
        # Those that exist are sent too: another client may have removed them since.
        problems = [None] * len(acls) if options.dry_run else create_acls(client, acls)
    did = "would add" if options.dry_run else "added"
    for acl, problem in zip(acls, problems, strict=True):
        if problem is not None:
            report.failed(str(acl), problem)
        else:
            report.done("exists already:" if acl in existing else did, str(acl), **acl.row)
    return report.end()


def _check_host(host: str) -> None:
    """Raise WrongCall for what no client's address equals: Kafka accepts it, but the entry would have no effect."""
    try:
        ip_address(host)
    except ValueError:
        if host != ANY_HOST:
            raise WrongCall(f"{host!r} is no IP address: entries do not resolve host names; * is every host") from None
