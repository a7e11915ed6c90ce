"""Delete SCRAM users: all their mechanisms, or those that are named.

A deleted user cannot log in any more. Open connections stay until `connections.max.reauth.ms` ends them; access control
entries stay too.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import Report
from barnabas.commands._rights import check_cluster
from barnabas.commands._unserved import controller_awaited
from barnabas.commands._users import MECHANISMS, add_mechanism_option, alter_user, describe_users, unknown_users

if TYPE_CHECKING:
    from barnabas.commands._admin import Admin

EXAMPLES = """
  barnabas user delete alice bob --dry-run
  barnabas user delete alice --mechanism SCRAM-SHA-256
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("users", nargs="+", metavar="USER", help="the users")
    add_mechanism_option(parser, "delete only the credential of this mechanism; repeatable")
    parser.add_argument("-d", "--dry-run", action="store_true", help="only print what would be deleted")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Delete the credentials; return 1 if a user or mechanism does not exist, or cannot be deleted."""
    report = Report(options)
    users = list(dict.fromkeys(options.users))
    with admin(options) as client, controller_awaited(options):
        check_cluster(client, "ALTER")
        existing = describe_users(client)
        for user in users:
            for problem in unknown_users([user], existing):
                report.failed(user, problem.partition(": ")[2])
            found = existing.get(user, {})
            for mechanism in (dict.fromkeys(options.mechanism) or found) if found else ():
                what = f"{user} ({mechanism})"
                if mechanism not in found:
                    report.failed(what, f"has no such credential, only {', '.join(found)}")
                elif options.dry_run:
                    report.done("would delete", what, mechanism=mechanism)
                else:
                    _delete(client, user, mechanism, report)
    return report.end()


def _delete(client: Admin, user: str, mechanism: str, report: Report) -> None:
    from kafka.admin import UserScramCredentialDeletion

    problem = alter_user(client, UserScramCredentialDeletion(user, MECHANISMS[mechanism]))
    if problem is None:
        report.done("deleted", f"{user} ({mechanism})", mechanism=mechanism)
    else:
        report.failed(f"{user} ({mechanism})", problem)
