"""Add a SCRAM user, or change the password of an existing one.

The password is the first line of --password-file (- is standard input), else the value of BARNABAS_USER_PASSWORD, else
what is typed on the terminal. It is no argument, because other users of the machine can read command lines, and shells
keep them. Without --mechanism it is set for SCRAM-SHA-512. Connections that the user has stay.
"""

import argparse

from barnabas.commands._client import add_common_options, admin
from barnabas.commands._output import Report, WrongCall, complain
from barnabas.commands._rights import check_cluster
from barnabas.commands._unserved import controller_awaited
from barnabas.commands._users import (
    MECHANISMS,
    add_mechanism_option,
    alter_user,
    describe_users,
    principal_warning,
    read_password,
)

EXAMPLES = """
  barnabas user add alice
  barnabas user add alice --mechanism SCRAM-SHA-256 --mechanism SCRAM-SHA-512
  pass show alice | barnabas user add alice --password-file -
"""
_DEFAULT = "SCRAM-SHA-512"
_ITERATIONS = (4096, 16384)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("user", metavar="USER", help="the user's name")
    add_mechanism_option(parser, f"set the password for this mechanism; repeatable ({_DEFAULT})")
    parser.add_argument(
        "--iterations",
        type=_iterations,
        default=_ITERATIONS[0],
        metavar="N",
        help=f"hash the password N times, {_ITERATIONS[0]} to {_ITERATIONS[1]} (default: %(default)s)",
    )
    parser.add_argument("--password-file", metavar="FILE", help="read the password from a file; - is standard input")
    parser.add_argument("-d", "--dry-run", action="store_true", help="only print what would be added or changed")
    add_common_options(parser)


def run(options: argparse.Namespace) -> int:
    """Set the password for each mechanism; return 1 if one cannot be set."""
    if not options.user:
        raise WrongCall("the user's name is empty")
    if warning := principal_warning(options.user):
        complain(options.command, warning)
    password = "" if options.dry_run else read_password(options.password_file, options.user)
    mechanisms = list(dict.fromkeys(options.mechanism)) or [_DEFAULT]
    report = Report(options)
    with admin(options) as client, controller_awaited(options):
        check_cluster(client, "ALTER")
        existing = describe_users(client).get(options.user, {})
        for mechanism in mechanisms:
            exists = mechanism in existing
            what = f"{options.user} ({mechanism})"
            if options.dry_run:
                report.done("would change" if exists else "would add", what, mechanism=mechanism)
                continue
            from kafka.admin import UserScramCredentialUpsertion

            credential = UserScramCredentialUpsertion(
                options.user, MECHANISMS[mechanism], password, iterations=options.iterations
            )
            problem = alter_user(client, credential)
            if problem is None:
                report.done("changed" if exists else "added", what, mechanism=mechanism)
            else:
                report.failed(what, problem)
    return report.end()


def _iterations(text: str) -> int:
    """Return the number if Kafka allows so many iterations; ArgumentTypeError otherwise."""
    least, most = _ITERATIONS
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and least <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"{text!r}: write a number from {least} to {most}")
    return int(text)
