"""Let delegation tokens expire later, at most at the end of their maximum lifetime; for owners and renewers.

A token is named by its id, not by its HMAC: other users of the machine can read command lines.
"""

import argparse

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import Report
from barnabas.commands._tokens import SERVERS_CHOICE, Token, change_tokens, period_ms, renew_token
from barnabas.commands._transactions import time_text
from barnabas.commands._unserved import controller_awaited

EXAMPLES = """
  barnabas token renew FvuC4cOIR9qWUvQ8yQ2SKg
  barnabas token renew FvuC4cOIR9qWUvQ8yQ2SKg --period 2h --dry-run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("tokens", nargs="+", metavar="TOKEN", help="the ids of the tokens")
    parser.add_argument(
        "--period",
        type=period_ms,
        default=SERVERS_CHOICE,
        metavar="DURATION",
        help="the time from now until they expire: 90m, 12h (default, and the most: what the broker allows)",
    )
    parser.add_argument("-d", "--dry-run", action="store_true", help="only print what would be renewed")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Renew the tokens; return 1 if one does not exist or cannot be renewed."""
    report = Report(options)
    with admin(options) as client, controller_awaited(options):

        def renew(token: Token) -> None:
            if options.dry_run:
                report.done("would renew", token.token_id)
                return
            expires = time_text(renew_token(client, token, options.period))
            report.done("renewed", token.token_id, f"expires {expires}", expires=expires)

        change_tokens(client, report, options.tokens, renew)
    return report.end()
