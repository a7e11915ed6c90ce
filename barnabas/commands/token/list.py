"""List delegation tokens: those that the user owns, has requested or may renew, and those that ACLs let it see.

The HMAC of a token is what its bearer logs in with: it is printed with --hmac only.
"""

import argparse

from barnabas.commands._acls import principal
from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import show
from barnabas.commands._tokens import COLUMNS, list_tokens

EXAMPLES = """
  barnabas token list
  barnabas token list --owner User:alice --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--owner",
        type=principal,
        action="append",
        metavar="TYPE:NAME",
        help="only tokens that this principal owns, has requested or may renew; repeatable",
    )
    parser.add_argument("--hmac", action="store_true", help="print the secrets of the tokens, too")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print one row per token."""
    with admin(options) as client:
        tokens = list_tokens(client, options.owner)
    columns = (*COLUMNS, "hmac") if options.hmac else COLUMNS
    show(options, columns, [token.row(with_hmac=options.hmac) for token in tokens])
    return 0
