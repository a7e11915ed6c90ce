"""SCRAM users for the commands: their credentials, and the passwords of new ones."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas._arguments import did_you_mean
from barnabas.commands._client import reason, send
from barnabas.commands._output import CommandError, WrongCall, explain_code

if TYPE_CHECKING:
    from barnabas.commands._admin import Admin

MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""Numbers of the mechanisms in requests."""
PASSWORD_VARIABLE = "BARNABAS_USER_PASSWORD"  # noqa: S105 - the name of a variable
_STDIN = "-"
_OTHERS = " (users of PLAIN are in the settings of the brokers, those of `barnabas up --secure` in users.properties)"


def add_mechanism_option(parser: argparse.ArgumentParser, about: str) -> None:
    """Declare `--mechanism`."""
    parser.add_argument(
        "--mechanism", action="append", default=[], type=_mechanism, metavar="SCRAM-SHA-256|SCRAM-SHA-512", help=about
    )


def _mechanism(text: str) -> str:
    name = text.upper().replace("_", "-")
    if name not in MECHANISMS:
        known = " or ".join(MECHANISMS)
        raise argparse.ArgumentTypeError(
            f"{text!r} is no SCRAM mechanism: write {known}{did_you_mean(name, MECHANISMS)}"
        )
    return name


def describe_users(client: Admin) -> dict[str, dict[str, int]]:
    """Return the iterations by mechanism, of each user; CommandError if the client may not describe them."""
    from kafka.protocol.admin import DescribeUserScramCredentialsRequest

    response = send(client, DescribeUserScramCredentialsRequest(users=None))
    if response.error_code:
        raise CommandError(explain_code(response.error_code, response.error_message))
    names = {number: name for name, number in MECHANISMS.items()}
    return {
        result.user: {
            names.get(one.mechanism, str(one.mechanism)): one.iterations
            for one in sorted(result.credential_infos, key=lambda one: int(one.mechanism))
        }
        for result in response.results
    }


def alter_user(client: Admin, change: Any) -> str | None:
    """Make one change of kafka-python's `UserScramCredential...` types; return the error, None if it is made."""
    from kafka.admin import UserScramCredentialDeletion
    from kafka.protocol.admin import AlterUserScramCredentialsRequest

    deletions, upsertions = [], []
    if isinstance(change, UserScramCredentialDeletion):
        deletions.append((change.user, int(change.mechanism)))
    else:
        hashed = (change.iterations, change.salt, change.salted_password)
        upsertions.append((change.user, int(change.mechanism), *hashed))
    response = send(client, AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions))
    for result in response.results:
        if result.error_code:
            return explain_code(result.error_code, result.error_message)
    return None


def principal_warning(user: str) -> str | None:
    """Return a warning about the name of a user that looks like a principal, which brokers accept; else None."""
    name = user.removeprefix("User:")
    return f"the user {user} has the principal User:{user}; did you mean {name}?" if name not in ("", user) else None


def unknown_users(wanted: Iterable[str], existing: Collection[str]) -> list[str]:
    """Return an error for each user that does not exist."""
    return [
        f"{user}: there is no such SCRAM user{did_you_mean(user, existing) or _OTHERS}"
        for user in wanted
        if user not in existing
    ]


def read_password(path: str | None, user: str, *, environment: Mapping[str, str] = os.environ) -> str:
    """Return a new password, from a file, the environment or the terminal; WrongCall or CommandError if there is none.

    On a terminal it is typed twice.
    """
    if path is not None:
        password = _first_line(path)
    elif PASSWORD_VARIABLE in environment:
        password = environment[PASSWORD_VARIABLE]
    elif sys.stdin is not None and sys.stdin.isatty():
        password = _typed(user)
    else:
        raise WrongCall(
            f"the password is missing: use --password-file FILE (- is standard input) or set {PASSWORD_VARIABLE}"
        )
    if not password:
        raise WrongCall("the password is empty")
    return password


def _first_line(path: str) -> str:
    try:
        if path == _STDIN:
            line = sys.stdin.buffer.readline()
        else:
            with open(path, "rb") as file:
                line = file.readline()
    except OSError as error:
        raise CommandError(f"--password-file {path}: {reason(error)}") from None
    try:
        return line.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise CommandError(f"--password-file {path}: the password is not UTF-8 text") from None


def _typed(user: str) -> str:
    from getpass import getpass

    password = getpass(f"password of {user}: ")
    if getpass("the same again: ") != password:
        raise CommandError("the two passwords differ; nothing was changed")
    return password
