"""What the parser of `barnabas serve` and those of the other commands have in common.

The server imports this module, and may import no other of this package than this and `barnabas` itself: it is small,
and imports nothing that a start does not need anyway. Nothing here can lie in the server's packages, which a user's
process never imports.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence


class Parser(argparse.ArgumentParser):
    """A parser that lists the values that an option may have where it gets another."""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            listed = ", ".join(map(str, action.choices))
            raise argparse.ArgumentError(action, f"{str(value)!r}: write one of {listed}")


class Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the texts are written, with the options' values named once."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=110)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


def unknown_arguments(parser: argparse.ArgumentParser, left: Sequence[str], elsewhere: Mapping[str, str] = {}) -> str:
    """Return the complaint about arguments that the parser does not know; at least one is `left`.

    `elsewhere` has options of other programs, each with what it is here.
    """
    options = [word.partition("=")[0] for word in left if word.startswith("-")]
    if not options:
        return f"unexpected {'argument' if len(left) == 1 else 'arguments'}: {' '.join(left)}"
    complaint = f"there is no option {options[0]}"
    if options[0] in elsewhere:
        return f"{complaint}; write {elsewhere[options[0]]}"
    if not options[0].startswith("--"):
        return complaint
    # Hidden options can be written, but are not suggested.
    shown = (action for action in parser._actions if action.help != argparse.SUPPRESS)
    return complaint + did_you_mean(options[0], [name for action in shown for name in action.option_strings])


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that names what is written most like a word; nothing if nothing is."""
    from difflib import get_close_matches  # only where something is wrong

    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
