"""Parser of RE2/J's syntax, with the flags of `Pattern.compile`: Perl's classes and groups, Unicode's categories.

A pattern is parsed in one pass over its characters. Instructions refer to each other by distance, so parsed code is
repeated, and moved behind other code, without a change: it is a tree (`_Code`), which is copied to a list once, at the
end. What depends on which of several matches is found (groups, and whether a repetition is greedy) is checked and
ignored: `Program` answers only whether a text matches.

Limits: `MAX_LENGTH` characters, `MAX_INSTRUCTIONS` after repetition, `MAX_DEPTH` open groups. A longer pattern is
refused as invalid.
"""

from __future__ import annotations

import re

from broker.regex.classes import ANY, ANY_BUT_NEWLINE, CATEGORIES, MAX_RUNE, PERL, POSIX, CharacterClass, Part, literal
from broker.regex.program import (
    BEGIN_LINE,
    BEGIN_TEXT,
    END_LINE,
    END_TEXT,
    NO_WORD_BOUNDARY,
    WORD_BOUNDARY,
    Assertion,
    Instruction,
    Jump,
    Program,
    Split,
)

MAX_LENGTH = 10_000
MAX_INSTRUCTIONS = 10_000
MAX_DEPTH = 1_000
MAX_REPEAT = 1_000

_REPEAT = re.compile(r"\{(0|[1-9][0-9]*)(,(0|[1-9][0-9]*)?)?\}")
_GROUP_NAME = re.compile(r"P?<([0-9A-Za-z_]+)>")
_FLAGS = re.compile(r"([imsU]*)(-[imsU]+)?([:)])")
_ESCAPES = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ASSERTIONS = {"A": BEGIN_TEXT, "z": END_TEXT, "b": WORD_BOUNDARY, "B": NO_WORD_BOUNDARY}


class _Code:
    """A sequence of instructions, of which parts may occur several times; `size` is their number."""

    __slots__ = ("parts", "size")

    def __init__(self, *parts: Instruction | _Code) -> None:
        self.parts = tuple(part for part in parts if not isinstance(part, _Code) or part.size)
        self.size: int = sum(part.size if isinstance(part, _Code) else 1 for part in self.parts)

    def instructions(self) -> list[Instruction]:
        """Return the instructions in order."""
        found: list[Instruction] = []
        left: list[Instruction | _Code] = [self]
        while left:
            part = left.pop()
            if isinstance(part, _Code):
                left += reversed(part.parts)
            else:
                found.append(part)
        return found


def _sequence(parts: list[_Code]) -> _Code:
    """Return the parts one after the other: a single one itself, so that nested groups do not make deep trees."""
    return parts[0] if len(parts) == 1 else _Code(*parts)


class PatternSyntaxError(ValueError):
    """The pattern is invalid."""


def compile_pattern(pattern: str) -> Program:
    """Return the program of a pattern; PatternSyntaxError if it is invalid or too large."""
    if len(pattern) > MAX_LENGTH:
        raise PatternSyntaxError(f"the pattern has more than {MAX_LENGTH:,} characters")
    return Program(_PatternParser(pattern).parse().instructions())


class _Group:
    """An open group: its alternatives so far, the terms of the current one, and the flags to return to after it."""

    __slots__ = ("alternatives", "flags", "terms")

    def __init__(self, flags: frozenset[str]) -> None:
        self.alternatives: list[_Code] = []
        self.terms: list[_Code] = []
        self.flags = flags

    def next_alternative(self) -> None:
        self.alternatives.append(_sequence(self.terms))
        self.terms = []

    def code(self) -> _Code:
        """Return the code of the whole group."""
        self.next_alternative()
        *others, found = self.alternatives
        for one in reversed(others):
            found = _Code(Split(1, one.size + 2), one, Jump(found.size + 1), found)
        return found


class _PatternParser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._open = [_Group(self._flags)]
        self._names: set[str] = set()
        self._size = 0
        self._last_posix_end = pattern.rfind(":]")

    def parse(self) -> _Code:
        pattern, end = self._pattern, len(self._pattern)
        after_repeat = False
        while self._at < end:
            character = pattern[self._at]
            is_repeat = False
            if character == "(":
                self._open_group()
            elif character == ")":
                self._close_group()
            elif character == "|":
                self._at += 1
                # Two instructions join the alternatives.
                self._grow(2)
                self._open[-1].next_alternative()
            elif character in "*+?":
                self._at += 1
                self._repeat(int(character == "+"), 1 if character == "?" else None, after_repeat)
                is_repeat = True
            elif character == "{" and (found := _REPEAT.match(pattern, self._at)):
                self._at = found.end()
                self._repeat(*_bounds(found), after_repeat)
                is_repeat = True
            elif character == "\\" and pattern.startswith("\\Q", self._at):
                self._quoted()
            else:
                self._add(self._term(character))
                is_repeat = character == "{"  # as in RE2/J, though it is a literal here
            after_repeat = is_repeat
        if len(self._open) > 1:
            raise PatternSyntaxError("missing closing )")
        return self._open[0].code()

    # Groups.

    def _open_group(self) -> None:
        self._at += 1
        outer = self._flags
        if self._pattern.startswith("?", self._at):
            self._at += 1
            if name := _GROUP_NAME.match(self._pattern, self._at):
                if name[1] in self._names:
                    raise PatternSyntaxError(f"duplicate group name: {name[1]}")
                self._names.add(name[1])
                self._at = name.end()
            else:
                flags = _FLAGS.match(self._pattern, self._at)
                if flags is None:
                    raise PatternSyntaxError("invalid group syntax")
                self._flags = (self._flags | set(flags[1])) - set(flags[2] or "")
                self._at = flags.end()
                if flags[3] == ")":  # for the rest of the group around it
                    return
        if len(self._open) > MAX_DEPTH:
            raise PatternSyntaxError(f"more than {MAX_DEPTH:,} open groups")
        self._open.append(_Group(outer))

    def _close_group(self) -> None:
        self._at += 1
        if len(self._open) == 1:
            raise PatternSyntaxError("unexpected )")
        group = self._open.pop()
        self._flags = group.flags
        self._open[-1].terms.append(group.code())

    # Terms and repetitions.

    def _grow(self, by: int) -> None:
        self._size += by
        if self._size > MAX_INSTRUCTIONS:
            raise PatternSyntaxError(f"the pattern needs more than {MAX_INSTRUCTIONS:,} instructions")

    def _add(self, instruction: Instruction) -> None:
        self._grow(1)
        self._open[-1].terms.append(_Code(instruction))

    def _repeat(self, least: int, most: int | None, after_repeat: bool) -> None:
        """Repeat the last term; `most` None is without limit."""
        terms = self._open[-1].terms
        if after_repeat:
            raise PatternSyntaxError("invalid nested repetition operator")
        if not terms:
            raise PatternSyntaxError("missing argument to repetition operator")
        if self._pattern.startswith("?", self._at):
            self._at += 1
        one = terms.pop()
        optional = 0 if most is None else most - least
        self._grow((least + optional) * one.size + optional + 2)
        code: list[Instruction | _Code] = [one] * least
        if most is None:
            code += [Split(1, one.size + 2), one, Jump(-one.size - 1)]
        else:
            left = optional * (one.size + 1)
            for _ in range(optional):
                code += [Split(1, left), one]
                left -= one.size + 1
        terms.append(_Code(*code))

    def _term(self, character: str) -> Instruction:
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escaped()
        self._at += 1
        is_multiline = "m" in self._flags
        if character == "^":
            return Assertion(BEGIN_LINE if is_multiline else BEGIN_TEXT)
        if character == "$":
            return Assertion(END_LINE if is_multiline else END_TEXT)
        if character == ".":
            return ANY if "s" in self._flags else ANY_BUT_NEWLINE
        return self._literal(character)

    def _literal(self, character: str) -> Instruction:
        return literal(character, folds_case="i" in self._flags)

    def _quoted(self) -> None:
        first = self._at + 2
        end = self._pattern.find("\\E", first)
        for character in self._pattern[first : None if end < 0 else end]:
            self._add(self._literal(character))
        self._at = len(self._pattern) if end < 0 else end + 2

    def _escaped(self) -> Instruction:
        following = self._pattern[self._at + 1 : self._at + 2]
        if following in _ASSERTIONS:
            self._at += 2
            return Assertion(_ASSERTIONS[following])
        part = self._part()
        if part is not None:
            return CharacterClass((part,), folds_case="i" in self._flags)
        return self._literal(self._escape())

    # Classes.

    def _class(self) -> CharacterClass:
        self._at += 1
        negated = self._pattern.startswith("^", self._at)
        self._at += negated
        parts: list[Part] = []
        first = True
        while first or not self._pattern.startswith("]", self._at):
            first = False
            part = self._posix() if self._pattern.startswith("[:", self._at) else self._part()
            parts.append(self._range() if part is None else part)
        self._at += 1
        return CharacterClass(tuple(parts), negated, "i" in self._flags)

    def _posix(self) -> Part | None:
        """Return the class of a name such as [:alpha:]; None if it does not end, and so is no name."""
        if self._at + 2 > self._last_posix_end:
            return None
        end = self._pattern.find(":]", self._at + 2)
        name = self._pattern[self._at + 2 : end]
        ranges = POSIX.get(name.removeprefix("^"))
        if ranges is None:
            raise PatternSyntaxError(f"invalid character class range: [:{name}:]")
        self._at = end + 2
        return Part(ranges, negated=name.startswith("^"))

    def _part(self) -> Part | None:
        """Return a Perl or Unicode class, as outside brackets; None if something else follows."""
        escape = self._pattern[self._at : self._at + 2]
        kind = escape[1:]
        if not escape.startswith("\\") or kind not in ("d", "D", "s", "S", "w", "W", "p", "P"):
            return None
        self._at += 2
        if kind not in "pP":
            return Part(PERL[kind.lower()], negated=kind.isupper())
        name = self._pattern[self._at : self._at + 1]
        self._at += 1
        if name == "{":
            end = self._pattern.find("}", self._at)
            if end < 0:
                raise PatternSyntaxError("invalid character class range")
            name = self._pattern[self._at : end]
            self._at = end + 1
        negated = (kind == "P") != name.startswith("^")
        name = name.removeprefix("^")
        if name == "Any":
            return Part(((0, MAX_RUNE),), negated=negated)
        if name not in CATEGORIES:
            raise PatternSyntaxError(f"invalid character class range: \\p{{{name}}}")
        return Part(category=name, negated=negated)

    def _range(self) -> Part:
        low = high = self._class_character()
        rest = self._pattern[self._at : self._at + 2]
        if len(rest) == 2 and rest[0] == "-" and rest[1] != "]":
            self._at += 1
            high = self._class_character()
        if high < low:
            raise PatternSyntaxError(f"invalid character class range: {low}-{high}")
        return Part(((ord(low), ord(high)),))

    def _class_character(self) -> str:
        character = self._pattern[self._at : self._at + 1]
        if not character:
            raise PatternSyntaxError("missing closing ]")
        if character == "\\":
            return self._escape()
        self._at += 1
        return character

    # Escapes.

    def _escape(self) -> str:
        """Return the character of an escape: of a letter, of an octal or hexadecimal code, or the escaped itself."""
        pattern = self._pattern
        self._at += 2
        kind = pattern[self._at - 1 : self._at]
        if kind in _ESCAPES:
            return _ESCAPES[kind]
        if kind and not (kind.isascii() and kind.isalnum()):
            return kind
        found = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}|x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]+)\})").match(
            pattern, self._at - 1
        )
        if not kind or found is None:
            raise PatternSyntaxError("trailing backslash" if not kind else f"invalid escape sequence: \\{kind}")
        self._at = found.end()
        value = int(found[1] or found[2], 16) if kind == "x" else int(found[0], 8)
        if value > MAX_RUNE:
            raise PatternSyntaxError(f"invalid escape sequence: {found[0]}")
        return chr(value)


def _bounds(found: re.Match[str]) -> tuple[int, int | None]:
    """Return the least and the most of {n}, {n,} and {n,m}."""
    least = int(found[1][:5])
    most = int(found[3][:5]) if found[3] else None if found[2] else least
    if least > MAX_REPEAT or (most is not None and not least <= most <= MAX_REPEAT):
        raise PatternSyntaxError(f"invalid repeat count: {found[0]}")
    return least, most
