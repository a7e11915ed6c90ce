"""The command line: the commands, and parsing of their arguments.

A command is a module with `add_arguments(parser)` and `run(options) -> int`; its docstring is its help, followed by
`EXAMPLES` if it has any. A module with `pass_on(words) -> int` instead of `run` gets its words unparsed, for another
parser; only a first word `--help` is parsed here. `NEEDS` has the operation that a command needs on each kind of
resource, for the error of a refused one. A package is a command with subcommands:
`SUBCOMMANDS` lists them in order, `DEFAULT`, if set, is used if none is named. Only the module of the command that runs
is imported.
"""

import argparse
import importlib
import inspect
import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from barnabas._arguments import Help, Parser, did_you_mean, unknown_arguments

PACKAGE = "barnabas.commands"
COMMANDS = {
    "up": "run a whole cluster in the foreground",
    "run": "run a program with a cluster of its own, for tests",
    "fault": "make brokers for tests fail: errors, delays, lost connections",
    "clock": "show and advance the clocks of brokers for tests",
    "trace": "print the last requests and responses of brokers for tests",
    "topic": "create, list, describe, alter, trim and delete topics",
    "produce": "write records to a topic",
    "consume": "print a topic's records",
    "group": "list, describe, seek and delete consumer groups",
    "txn": "list, describe and terminate transactions, find and abort hanging ones",
    "cluster": "show brokers, features, quorum and log directories",
    "config": "show and change settings of topics, brokers and groups",
    "acl": "list, add and remove access control entries",
    "quota": "list, describe, set and remove quotas of users, client ids and addresses",
    "user": "list, describe, add and delete SCRAM users",
    "token": "list, create, renew and expire delegation tokens",
    "spark": "run the ready-made jobs on Apache Spark",
    "log": "dump, verify and repair the files of a broker that is stopped",
    "health": "check the health of the cluster, or wait until it is healthy",
    "completion": "print a script that completes commands in a shell",
}


ALIASES = {"ls": ("list",), "rm": ("delete", "remove")}
"""Short names of subcommands, each for the one that the command has."""
_GONE = ("delete", "remove", "expire", "clear", "reset")
_SYNONYMS = {
    "delete": _GONE,
    "remove": _GONE,
    "rm": _GONE,
    "add": ("create", "set"),
    "create": ("add", "set"),
    "set": ("alter", "add"),
    "alter": ("set", "add"),
    "reset": ("seek",),
    "show": ("describe", "info", "list"),
    "describe": ("info", "list"),
    "info": ("describe", "show"),
}
"""For words that are not a command here: those that may be meant."""
MOVABLE = ("-b", "--brokers", "--bootstrap-server", "-X", "-F", "--command-config", "-m", "--timeout")
"""Options of the connection, each with a value, that may stand before the command too."""


class ParsedCommand(NamedTuple):
    """A command's module, the words that name it, and the words left for its parser."""

    module: ModuleType
    command: str
    rest: list[str]

    @property
    def is_group(self) -> bool:
        """Whether a subcommand must follow."""
        return hasattr(self.module, "SUBCOMMANDS")

    @property
    def passes_words_on(self) -> bool:
        """Whether the words are for another parser."""
        return hasattr(self.module, "pass_on") and self.rest[:1] not in (["-h"], ["--help"])


def find(words: Sequence[str]) -> ParsedCommand:
    """Return the command that these words start with; `words[0]` is one of `COMMANDS`."""
    name, *rest = words
    found = ParsedCommand(_module(name), name, rest)
    if not found.is_group:
        return found
    module = found.module
    rest = command_first(rest)
    if rest:
        rest[0] = next((name for name in ALIASES.get(rest[0], ()) if name in module.SUBCOMMANDS), rest[0])
    if rest and rest[0] in module.SUBCOMMANDS:
        return ParsedCommand(_module(name, rest[0]), f"{name} {rest[0]}", rest[1:])
    default: str | None = getattr(module, "DEFAULT", None)
    if default and (not rest or (rest[0].startswith("-") and rest[0] not in ("-h", "--help"))):
        return ParsedCommand(_module(name, default), name, rest)
    return found


def command_first(words: Sequence[str]) -> list[str]:
    """Return the words with the connection's options moved from before the next command to behind it."""
    end = 0
    while end < len(words) and (option := words[end].partition("="))[0] in MOVABLE:
        end += 1 if option[1] else 2
    return [*words[end : end + 1], *words[:end], *words[end + 1 :]]


def make_parser(found: ParsedCommand) -> argparse.ArgumentParser:
    """Return the parser of a command."""
    module = found.module
    parser = _Parser(
        prog=f"barnabas {found.command}",
        description=inspect.getdoc(module),
        epilog=_epilog(module),
        formatter_class=Help,
        allow_abbrev=False,
    )
    parser.set_defaults(command=found.command)
    if found.is_group:
        lines = "\n".join(f"  {name:<15} {about}" for name, about in module.SUBCOMMANDS.items())
        parser.usage = f"barnabas {found.command} COMMAND ..."
        parser.description = f"{parser.description}\n\ncommands:\n{lines}"
        parser.epilog = f"{_epilog(module)}\n\n`barnabas {found.command} COMMAND --help` explains each."
    else:
        module.add_arguments(parser)
        parser.usage = " ".join((parser.prog, "[OPTION]...", *map(_in_usage, parser._get_positional_actions())))
    return parser


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Return a command's parsed arguments; exit with status 2 and a suggestion if one is unknown."""
    options, left = parser.parse_known_intermixed_args(words)
    if left:
        parser.error(unknown_arguments(parser, left))
    return options


def unknown_command(program: str, word: str, known: Sequence[str]) -> str:
    """Return the error message for a word in the place of a command."""
    if word == "-v":
        return f"{program}: there is no option -v; did you mean --version?\n"
    if word.startswith("-"):
        return f"{program}: {word} stands before the command; options come after it\n"
    end = did_you_mean(word, known) or _synonym(word, known) or f"; `{program} --help` lists them"
    return f"{program}: unknown command {word!r}{end}\n"


def _synonym(word: str, known: Sequence[str]) -> str:
    """Return "; did you mean X?" for the known command that another word stands for, or "" if there is none."""
    return next((f"; did you mean {other}?" for other in _SYNONYMS.get(word, ()) if other in known), "")


def _module(*names: str) -> ModuleType:
    return importlib.import_module(".".join((PACKAGE, *names)).replace("-", "_"))


def _epilog(module: ModuleType) -> str | None:
    examples: str | None = getattr(module, "EXAMPLES", None)
    return f"examples:{examples.rstrip()}" if examples else None


def _in_usage(argument: argparse.Action) -> str:
    name = str(argument.metavar or argument.dest.upper())
    return {"+": f"{name}...", "*": f"[{name}...]", "?": f"[{name}]"}.get(str(argument.nargs), name)


class _Parser(Parser):
    """A parser that accepts values such as -1:end, as argparse accepts -1."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._negative_number_matcher = re.compile(r"-\d")  # no option starts so
        self._is_intermixed = False

    def parse_known_intermixed_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse options and other arguments in any order; the error about missing ones names all of both kinds.

        argparse parses the options first, and would name only the missing ones of these.
        """
        self._is_intermixed = True
        try:
            return super().parse_known_intermixed_args(args, namespace)
        except _MissingError:
            pass
        finally:
            self._is_intermixed = False
        return self.parse_known_args(args)

    def error(self, message: str) -> NoReturn:
        """Exit with the message."""
        if self._is_intermixed and message.startswith("the following arguments are required"):
            raise _MissingError
        super().error(message)


class _MissingError(Exception):
    """Required arguments are missing."""
