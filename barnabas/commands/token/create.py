"""Create a delegation token, and print its id and its HMAC: the user and the password of its bearer.

The bearer logs in by SCRAM with tokenauth="true", as the owner, until the token expires. The owner and the renewers can
renew the token up to its maximum lifetime. Tokens for another user take CREATE_TOKENS on that user.
"""

import argparse
from base64 import b64encode

from barnabas.commands._acls import principal
from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import Report, print_facts, show_json
from barnabas.commands._tokens import SERVERS_CHOICE, create_token, list_tokens, period_ms
from barnabas.commands._unserved import controller_awaited

EXAMPLES = """
  barnabas token create
  barnabas token create --max-lifetime 12h --renewer User:scheduler
  barnabas token create --owner User:alice --dry-run
"""
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--owner", type=principal, metavar="TYPE:NAME", help="the owner (default: the user)")
    parser.add_argument(
        "--renewer",
        type=principal,
        action="append",
        default=[],
        metavar="TYPE:NAME",
        help="a user that may renew the token, besides the owner; repeatable",
    )
    parser.add_argument(
        "--max-lifetime",
        type=period_ms,
        default=SERVERS_CHOICE,
        metavar="DURATION",
        help="the longest lifetime, with renewals: 90m, 12h, 7d (default, and the most: what the broker allows)",
    )
    parser.add_argument("-d", "--dry-run", action="store_true", help="only check that tokens are enabled")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the new token."""
    with admin(options) as client, controller_awaited(options):
        if options.dry_run:
            list_tokens(client, ())
            report = Report(options)
            report.done("would create", f"a token of {options.owner or 'the user'}")
            return report.end()
        token = create_token(client, options.owner, options.renewer, options.max_lifetime)
    row = token.row(with_hmac=True)
    if options.json:
        show_json(row)
        return 0
    password = b64encode(token.hmac).decode()
    login = f'{_MODULE} required username="{token.token_id}" password="{password}" tokenauth="true";'
    print_facts({**row, "login": f"sasl.jaas.config={login}"})
    return 0
