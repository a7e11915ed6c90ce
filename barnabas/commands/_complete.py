"""Completion candidates: `barnabas complete WORD... TYPED`, called by the shell scripts of `completion`.

Print one candidate per line, followed by a tab and its description. Commands and options come from the parsers
themselves. Topics and groups are queried from a broker with a timeout of `TIMEOUT_S`; if it fails there are none, as a
user waits for the key press.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence

from barnabas.commands._parser import COMMANDS, find, make_parser

TIMEOUT_S = 0.5
Candidate = tuple[str, str]


def complete(words: Sequence[str]) -> int:
    """Print the candidates for the last word."""
    *before, typed = words or [""]
    try:
        for text, about in candidates(before, typed):
            if text.startswith(typed):
                sys.stdout.write(f"{text}\t{about}\n" if about else f"{text}\n")
    except (Exception, SystemExit):  # no error message in the middle of a half-typed line
        return 1
    return 0


def candidates(before: Sequence[str], typed: str) -> Iterable[Candidate]:
    """Return what may follow the words `before`; not all of it starts with `typed`."""
    if not before:
        return [("serve", "run a broker in the foreground"), *COMMANDS.items()]
    if before[0] == "serve":
        return _serve(before[-1], typed)
    if before[0] not in COMMANDS:
        return []
    found = find(before)
    if found.is_group:
        return found.module.SUBCOMMANDS.items() if not found.rest else []
    parser = make_parser(found)
    offered: list[Candidate] = []
    if len(before) == 1 and (group := find([before[0], "--help"])).is_group:  # a group with a default subcommand
        offered += group.module.SUBCOMMANDS.items()
    options = {name: action for action in parser._actions for name in action.option_strings}
    previous = options.get(found.rest[-1]) if found.rest else None
    if previous is not None and previous.nargs is None:
        return _values(previous, found.rest)
    if typed.startswith("-"):
        formatter = parser._get_formatter()
        return [
            (name, formatter._expand_help(action) if action.help else "")
            for name, action in options.items()
            if name.startswith("--") or name == typed
        ]
    positionals = list(_positionals(parser, found.rest, options))
    return [*offered, *(_values(positionals[0], found.rest) if positionals else [])]


def _positionals(
    parser: argparse.ArgumentParser, rest: Sequence[str], options: dict[str, argparse.Action]
) -> Iterator[argparse.Action]:
    """Return the positional arguments that may still follow."""
    given = 0
    takes_value = False
    for word in rest:
        if takes_value:
            takes_value = False
        elif word in options:
            takes_value = options[word].nargs is None
        elif not word.startswith("-"):
            given += 1
    for action in parser._get_positional_actions():
        if action.nargs in ("*", "+") or given <= 0:
            yield action
        given -= 1


def _values(action: argparse.Action, words: Sequence[str]) -> Iterable[Candidate]:
    """Return the possible values of an argument."""
    if action.choices:
        return [(str(choice), "") for choice in action.choices]
    if action.dest in ("change", "config", "define", "reset", "name"):
        found = server_candidates("settings", _kind_of_settings(action, words))
        return found if action.dest in ("change", "config", "define") else [(name[:-1], about) for name, about in found]
    names = {"topic": _topics, "topics": _topics, "group": _groups, "to_group": _groups, "resource": _resources}
    names["transactional_id"] = _transactional_ids
    look_up = names.get(action.dest)
    return [(name, "") for name in look_up(_connection(words))] if look_up else []


def _serve(previous: str, typed: str) -> list[Candidate]:
    """Return the candidates for `barnabas serve`, whose options are the server's."""
    if typed.startswith("-D"):
        return [(f"-D{name}", about) for name, about in server_candidates("settings", "broker")]
    return server_candidates("options") if typed.startswith("-") else server_candidates("values", previous)


def _kind_of_settings(action: argparse.Action, words: Sequence[str]) -> str:
    """Return the kind of resource whose settings an argument names."""
    if action.dest == "define":
        return "broker"
    kinds = (word.partition("/")[0] for word in words if "/" in word or word == "brokers")
    return next(kinds, "topic").removesuffix("s") if action.dest in ("change", "name") else "topic"


def server_candidates(*words: str) -> list[Candidate]:
    """Return the candidates of the server's program, which has the settings' definitions."""
    launcher = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_launcher.py")
    done = subprocess.run(  # noqa: S603 - our own program, no shell
        [sys.executable, launcher, "complete", *words], stdout=subprocess.PIPE, text=True, check=True, timeout=5
    )
    lines = (line.partition("\t") for line in done.stdout.splitlines())
    return [(name, about) for name, _, about in lines]


def _connection(words: Sequence[str]) -> argparse.Namespace:
    """Return the connection options among the words."""
    connection = argparse.ArgumentParser(add_help=False)
    from barnabas.commands._client import add_broker_options

    add_broker_options(connection)
    options, _ = connection.parse_known_args(list(words))
    options.timeout = TIMEOUT_S
    return options


def _topics(options: argparse.Namespace) -> list[str]:
    from barnabas.commands._client import admin

    with admin(options) as client:
        return sorted(client.list_topics())


def _groups(options: argparse.Namespace) -> list[str]:
    from barnabas.commands._client import admin

    with admin(options) as client:
        return sorted(str(group["group_id"]) for group in client.list_groups(client.answering()))


def _transactional_ids(options: argparse.Namespace) -> list[str]:
    from barnabas.commands._client import admin
    from barnabas.commands._transactions import list_transactions

    with admin(options) as client:
        return [one.name for one in list_transactions(client, client.answering())]


def _resources(options: argparse.Namespace) -> list[str]:
    from barnabas.commands._client import admin

    with admin(options) as client:
        brokers = [f"broker/{broker['broker_id']}" for broker in client.describe_cluster()["brokers"]]
        return ["brokers", *brokers, *(f"topic/{name}" for name in sorted(client.list_topics()))]
