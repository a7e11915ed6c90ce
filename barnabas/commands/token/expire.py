"""Let delegation tokens expire: at once, or after a time; for owners and renewers.

A token that expires at once is removed: it is refused from then on. Sessions that exist stay until the token would have
expired.
"""

import argparse

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import Report
from barnabas.commands._tokens import Token, change_tokens, expire_token, period_ms
from barnabas.commands._transactions import time_text
from barnabas.commands._unserved import controller_awaited

EXAMPLES = """
  barnabas token expire FvuC4cOIR9qWUvQ8yQ2SKg --dry-run
  barnabas token expire FvuC4cOIR9qWUvQ8yQ2SKg --after 10m
"""
_AT_ONCE = -1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("tokens", nargs="+", metavar="TOKEN", help="the ids of the tokens")
    parser.add_argument(
        "--after",
        type=period_ms,
        default=_AT_ONCE,
        metavar="DURATION",
        help="the time from now until they expire: 10m, 2h (default: at once)",
    )
    parser.add_argument("-d", "--dry-run", action="store_true", help="only print what would expire")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Expire the tokens; return 1 if one does not exist or cannot be expired."""
    report, is_removed = Report(options), options.after == _AT_ONCE
    with admin(options) as client, controller_awaited(options):

        def expire(token: Token) -> None:
            if options.dry_run:
                report.done("would remove" if is_removed else "would expire", token.token_id)
                return
            expires = time_text(expire_token(client, token, options.after))
            note = "" if is_removed else f"expires {expires}"
            report.done("removed" if is_removed else "changed", token.token_id, note, expires=expires)

        change_tokens(client, report, options.tokens, expire)
    return report.end()
