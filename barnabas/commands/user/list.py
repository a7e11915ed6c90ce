"""List all SCRAM users and their mechanisms."""

import argparse

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import show
from barnabas.commands._users import describe_users

EXAMPLES = """
  barnabas user list
  barnabas user list --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print one row per user."""
    with admin(options) as client:
        users = describe_users(client)
    show(options, ("user", "mechanisms"), [{"user": user, "mechanisms": list(users[user])} for user in sorted(users)])
    return 0
