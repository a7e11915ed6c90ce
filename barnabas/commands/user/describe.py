"""Show the mechanisms of SCRAM users, and how often each hashes the password; all users if none is named.

Salts and keys never leave the brokers.
"""

import argparse

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import complain_of, show
from barnabas.commands._users import describe_users, unknown_users

EXAMPLES = """
  barnabas user describe
  barnabas user describe alice bob --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("users", nargs="*", metavar="USER", help="the users; all if none is named")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print one row per mechanism of a user; return 1 if a named user does not exist."""
    with admin(options) as client:
        existing = describe_users(client)
    wanted = list(dict.fromkeys(options.users)) or sorted(existing)
    rows = [
        {"user": user, "mechanism": mechanism, "iterations": iterations}
        for user in wanted
        for mechanism, iterations in existing.get(user, {}).items()
    ]
    show(options, ("user", "mechanism", "iterations"), rows)
    return complain_of(options.command, unknown_users(wanted, existing))
