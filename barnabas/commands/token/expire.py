"""Let delegation tokens expire: at once, or after a time; for owners and renewers.

A token that expires at once is removed: it is refused from then on. Sessions that exist stay until the token would have
expired.
"""

import argparse

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import CommandError, Report
from barnabas.commands._tokens import expire_token, find_tokens, list_tokens, period_ms
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
    report = Report(options)
    with admin(options) as client, controller_awaited(options):
        found, missing = find_tokens(options.tokens, list_tokens(client))
        for problem in missing:
            report.failed(*problem.split(": ", 1))
        for token in found:
            is_removed = options.after == _AT_ONCE
            if options.dry_run:
                report.done("would remove" if is_removed else "would expire", token.token_id)
                continue
            try:
                expires = time_text(expire_token(client, token, options.after))
            except CommandError as error:
                report.failed(token.token_id, str(error))
            else:
                note = "" if is_removed else f"expires {expires}"
                report.done("removed" if is_removed else "changed", token.token_id, note, expires=expires)
    return report.end()
