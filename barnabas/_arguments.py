"""Argument parsing shared by `barnabas serve` and the other commands.

The server imports this module; besides it, the server may import only `barnabas` itself from this package. It is small,
and imports nothing that start-up does not need anyway. It cannot be in the server's packages: a user's process never
imports those.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


class Parser(argparse.ArgumentParser):
    """A parser that lists an option's valid values in the error about an invalid one.

    OSError if its help cannot be written.
    """

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        if message:
            (file or sys.stderr).write(message)  # argparse ignores errors and reports success
            sys.stdout.flush()

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            listed = ", ".join(map(str, action.choices))
            raise argparse.ArgumentError(action, f"{str(value)!r}: write one of {listed}")


class Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as its texts, with each option's value named once."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=110)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


def unknown_arguments(parser: argparse.ArgumentParser, left: Sequence[str], elsewhere: Mapping[str, str] = {}) -> str:
    """Return the error for arguments that the parser does not know; `left` has at least one.

    `elsewhere` maps options of other programs to the options that replace them here.
    """
    options = [word.partition("=")[0] for word in left if word.startswith("-")]
    if not options:
        return f"unexpected {'argument' if len(left) == 1 else 'arguments'}: {' '.join(left)}"
    complaint = f"there is no option {options[0]}"
    if options[0] in elsewhere:
        return f"{complaint}; write {elsewhere[options[0]]}"
    if not options[0].startswith("--"):
        return complaint
    # Hidden options are not suggested.
    shown = (action for action in parser._actions if action.help != argparse.SUPPRESS)
    return complaint + did_you_mean(options[0], [name for action in shown for name in action.option_strings])


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" for the known word closest to `word`, or "" if none is close."""
    from difflib import get_close_matches  # only where something is wrong

    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
